"""The modals: a reason, a confirmation to type, a stop, an agent's form; what was filled in."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    CheckboxesElement,
    InputBlock,
    InputInteractiveElement,
    NumberInputElement,
    Option,
    PlainTextInputElement,
    RadioButtonsElement,
    SectionBlock,
    StaticMultiSelectElement,
    StaticSelectElement,
)
from slack_sdk.models.views import View

from a2a.models import Question
from approvals.presentation.forms import Node, answer_form, show_defaults, taken_from
from approvals.slack.rendering.parts import desk_link, open_button
from approvals.slack.rendering.question import are_distinct
from approvals.slack.rendering.signed_values import BY_RULES, ModalValue
from approvals.slack.rendering.text import (
    SECTION_MOST,
    bold,
    fixed,
    one_line,
    pieces,
    plain,
    regular,
    rich,
    shortened,
)
from ledger.events.brakes import WHY_MAX, Scope

# What a view can hold, less what Assent puts there itself.
MOST_FIELDS = 45
MOST_OPTIONS = 100
OPTION_MOST = 75  # characters
FEW_OPTIONS = 10  # radio buttons and checkboxes
INPUT_MOST = 3000
REASON, TYPED, OFFERED = "reason", "typed", "offered"
ANSWER = "answer"
WHAT, WHY, LASTS = "what", "why", "lasts"
NO_END = "no_end"  # an option has no empty value
SEND_BACK, ASK, NOTE, HOUR = "send_back", "ask", "note", "hour"
OF_CHOICES = frozenset({"choice", "select", "several"})
OF_LINES = frozenset({"lines", "list", "json"})


def reject(value: ModalValue, offered: Sequence[str] = ()) -> View:
    """``offered`` are reasons that the agent proposes: one of them, words of one's own, or both.

    Left out are those that an option cannot show whole.
    """
    options = [
        Option(value=str(index), text=plain(text))
        for index, text in enumerate(offered)
        if one_line(text) == text and shortened(text, OPTION_MOST) == text
    ]
    reason = InputBlock(
        block_id=REASON,
        label=plain(_("Why? The agent reads it."), 150),
        element=PlainTextInputElement(
            action_id=REASON,
            multiline=True,
            min_length=1,
            max_length=2000,
            focus_on_load=not options,
        ),
        optional=bool(options),
    )
    about = rich(regular(value.button.about))
    blocks = [about, *([_reasons(options)] if options else []), reason]
    return _modal("reject", _("Reject"), _("Reject"), blocks, value.signed())


def more(value: ModalValue) -> View:
    """A modal for what is no decision: send back, a question, a note, more time."""
    labels = {
        SEND_BACK: _("Send it back: say what to propose instead"),
        ASK: _("Ask the agent; its clock rests"),
        NOTE: _("Leave a note for colleagues"),
        HOUR: _("Give it an hour more"),
    }
    options = [Option(value=key, text=plain(label, OPTION_MOST)) for key, label in labels.items()]
    text = PlainTextInputElement(action_id=REASON, multiline=True, max_length=2000)
    blocks = [
        rich(regular(value.button.about)),
        InputBlock(block_id=WHAT, label=plain(_("What")), element=_one_of(options, "")),
        InputBlock(
            block_id=REASON,
            label=plain(_("In your words")),
            hint=plain(_("The agent reads it, but for a note.")),
            element=text,
            optional=True,
        ),
    ]
    return _modal("more", _("More"), _("Go"), blocks, value.signed())


def _reasons(options: list[Option]) -> InputBlock:
    label = plain(_("One of the reasons that the agent offers"), 150)
    return InputBlock(block_id=OFFERED, label=label, element=_one_of(options, ""), optional=True)


def offered_index(inputs: dict[str, Any]) -> int | None:
    """The index of the chosen one of the offered reasons, if any."""
    option = inputs.get(OFFERED, {}).get(ANSWER, {}).get("selected_option") or {}
    value = str(option.get("value", ""))
    return int(value) if value.isascii() and value.isdigit() else None


def confirm(value: ModalValue) -> View:
    """For what cannot be undone, or as rules ask: the amount, or the target, has to be typed."""
    word, is_by_rules = value.button.word, value.button.choice == BY_RULES
    why = _("The rules ask for it.") if is_by_rules else _("This cannot be undone.")
    to_type = pieces(_("To approve it, type {word}"), word=fixed(word))
    blocks = [
        rich(regular(value.button.about)),
        rich(bold(why), regular(" "), *to_type),
        InputBlock(
            block_id=TYPED,
            label=plain(_("Type {word}").format(word=word), 150),
            element=PlainTextInputElement(action_id=TYPED, max_length=200, focus_on_load=True),
        ),
    ]
    return _modal("approve", _("Approve"), _("Approve"), blocks, value.signed())


def one_moment(value: ModalValue, name: str) -> View:
    """Shown until the form has been made, which replaces the view of this ``name``."""
    is_stop = value.button.verb == "stop"
    if is_stop:
        link = open_button(desk_link("stop"), _("Open the desk"))
    else:
        link = open_button(desk_link("question", value.button.subject), _("Answer on the desk"))
    blocks = [
        rich(regular(_("One moment… If nothing comes, close this and press the button again."))),
        ActionsBlock(elements=[link]),
    ]
    title = _("Stop") if is_stop else _("Answer")
    return _modal(value.button.verb, title, "", blocks, value.signed(), name)


def key_of(scope: Scope) -> str:
    """Names a scope in an option, which is shorter than a scope may be."""
    return hashlib.sha256(json.dumps(astuple(scope)).encode()).hexdigest()[:32]


def stop(
    choices: Iterable[tuple[str, str, str]],
    spans: Iterable[tuple[str, str]],
    value: ModalValue,
    *,
    is_narrow: bool,
) -> View:
    """``choices`` are the key, label and tenant of what may be stopped.

    The first is chosen where ``is_narrow``: where the person looks at that one.
    """
    options = [
        Option(value=key, text=plain(label, OPTION_MOST), description=plain(of) if of else None)
        for key, label, of in choices
    ]
    lasting = [Option(value=key or NO_END, text=plain(label)) for key, label in spans]
    why = PlainTextInputElement(action_id=ANSWER, multiline=True, max_length=WHY_MAX)
    hint = _("Everybody in the organisation reads it, and so do the agents.")
    blocks = [
        rich(
            regular(
                _(
                    "Nothing of it begins, is asked for or signed off, and no time runs out. "
                    "What runs already may finish."
                )
            )
        ),
        InputBlock(
            block_id=WHAT,
            label=plain(_("What to stop")),
            element=_one_of(options, options[0].value or "" if is_narrow else ""),
        ),
        InputBlock(
            block_id=LASTS,
            label=plain(_("For how long")),
            element=_one_of(lasting, lasting[0].value or ""),
        ),
        InputBlock(block_id=WHY, label=plain(_("Why")), hint=plain(hint), element=why),
    ]
    return _modal("stop", _("Stop"), _("Stop"), blocks, value.signed())


def chosen_in(inputs: dict[str, Any]) -> str:
    return _option_in(inputs, WHAT)


def span_in(inputs: dict[str, Any]) -> str:
    """One of ``SPANS``."""
    return _option_in(inputs, LASTS).replace(NO_END, "")


def why_of(inputs: dict[str, Any]) -> str:
    return str(inputs.get(WHY, {}).get(ANSWER, {}).get("value") or "").strip()


def _option_in(inputs: dict[str, Any], block: str) -> str:
    option = inputs.get(block, {}).get(ANSWER, {}).get("selected_option") or {}
    return str(option.get("value", ""))


def trouble(text: str, url: str = "") -> View:
    """A message instead of what was asked for."""
    blocks: list[Block] = [SectionBlock(text=plain(text))]
    if url:
        blocks.append(ActionsBlock(elements=[open_button(url, _("Open the desk"))]))
    return _modal("assent", "Assent", "", blocks, "")


def form(question: Question, value: ModalValue) -> View:
    """The agent's form; or a link to the desk, if no view can show the form as it is."""
    fields = _form_of(question.form).fields
    if not _fits(fields):
        link = desk_link("question", question.pk)
        return trouble(_("Slack cannot show this form whole: answer on the desk."), link)
    blocks: list[Block] = [SectionBlock(text=plain(question.text, SECTION_MOST))]
    blocks += [_input(number, field) for number, field in enumerate(fields)]
    return _modal("answer", _("Answer"), _("Answer"), blocks, value.signed())


def _form_of(schema: dict[str, Any]) -> Node:
    """The form with its defaults. A view has no groups: what is nested is written as JSON."""
    filled = answer_form(schema, most_deep=1)
    show_defaults(filled)
    return filled


def _modal(
    kind: str, title: str, submit: str, blocks: list[Any], metadata: str, name: str = ""
) -> View:
    return View(
        type="modal",
        external_id=name or None,
        callback_id=kind,
        title=plain(title, 24),
        submit=plain(submit, 24) if submit else None,
        close=plain(_("Cancel") if submit else _("Close"), 24),
        blocks=blocks,
        private_metadata=metadata,
    )


def _fits(fields: list[Node]) -> bool:
    return len(fields) <= MOST_FIELDS and all(
        len(field.choices) <= MOST_OPTIONS
        and len(field.text) <= INPUT_MOST
        and shortened(one_line(field.label), 200) == one_line(field.label)
        and shortened(_hint(field), 500) == _hint(field)
        and are_distinct([choice.label for choice in field.choices])
        for field in fields
    )


# --- the fields of a form --------------------------------------------------------------------


def _input(number: int, field: Node) -> InputBlock:
    return InputBlock(
        block_id=_block_id(number),
        label=plain(one_line(field.label), 200),
        hint=plain(_hint(field), 500) if _hint(field) else None,
        element=_element(field),
        optional=not field.is_required,
    )


def _hint(field: Node) -> str:
    forms = {"list": _("One on each line."), "json": _("As JSON.")}
    return f"{field.help} {forms.get(field.kind, '')}".strip()


def _block_id(number: int) -> str:
    return f"field.{number}"


def _element(field: Node) -> InputInteractiveElement:
    if field.kind == "yes_no":
        return _one_of([Option(value="true", text=plain(_("Yes"))), _no()], field.text)
    if field.kind in OF_CHOICES:
        options = [
            Option(value=str(index), text=plain(one_line(choice.label), 75))
            for index, choice in enumerate(field.choices)
        ]
        return _some_of(options) if field.kind == "several" else _one_of(options, _chosen(field))
    if field.kind == "number":
        return NumberInputElement(
            action_id=ANSWER,
            is_decimal_allowed=not field.is_whole,
            initial_value=field.text if _is_number(field.text, field.is_whole) else None,
        )
    return PlainTextInputElement(
        action_id=ANSWER,
        multiline=field.kind in OF_LINES,
        initial_value=field.text or None,
        max_length=INPUT_MOST,
    )


def _is_number(text: str, is_whole: bool) -> bool:
    return re.fullmatch(r"-?\d{1,15}" if is_whole else r"-?\d{1,15}(\.\d{1,15})?", text) is not None


def _no() -> Option:
    return Option(value="false", text=plain(_("No")))


def _chosen(field: Node) -> str:
    """The index of the form's default choice, as text; empty if it has none."""
    chosen = (str(index) for index, each in enumerate(field.choices) if each.value == field.text)
    return next(chosen, "")


def _one_of(options: list[Option], chosen: str) -> InputInteractiveElement:
    first = next((option for option in options if option.value == chosen), None)
    kind = RadioButtonsElement if len(options) <= FEW_OPTIONS else StaticSelectElement
    element: InputInteractiveElement = kind(action_id=ANSWER, options=options, initial_option=first)
    return element


def _some_of(options: list[Option]) -> InputInteractiveElement:
    kind = CheckboxesElement if len(options) <= FEW_OPTIONS else StaticMultiSelectElement
    element: InputInteractiveElement = kind(action_id=ANSWER, options=options)
    return element


# --- what was filled in ----------------------------------------------------------------------


def answer_of(inputs: dict[str, Any], schema: dict[str, Any]) -> tuple[Any, Node]:
    """The answer, and the form with what cannot be read of it."""
    form, filled = answer_form(schema, most_deep=1), QueryDict(mutable=True)
    for number, field in enumerate(form.fields):
        texts = _values(inputs.get(_block_id(number), {}).get(ANSWER, {}), field)
        filled.setlist(field.name, texts)
    return taken_from(form, filled), form


def _values(filled_in: dict[str, Any], field: Node) -> list[str]:
    if (options := filled_in.get("selected_options")) is not None:
        return [_value(option, field) for option in options]
    if (option := filled_in.get("selected_option")) is not None:
        return [_value(option, field)]
    text = filled_in.get("value")
    return [str(text)] if text is not None else []


def _value(option: dict[str, Any], field: Node) -> str:
    """Options carry the index of their choice, because a value may be longer than Slack takes."""
    value = str(option.get("value", ""))
    if field.kind == "yes_no":
        return value
    known = dict(enumerate(choice.value for choice in field.choices))
    return known.get(int(value), "") if value.isascii() and value.isdigit() else ""


def errors_in(form: Node) -> dict[str, str]:
    """The errors of an answer, by block id; those about no field are put at the first."""
    texts = {_block_id(0): " ".join(form.errors)}
    texts |= {
        _block_id(n): " ".join(field.errors) for n, field in enumerate(form.fields) if field.errors
    }
    return {block: text[:1000] for block, text in texts.items() if text}
