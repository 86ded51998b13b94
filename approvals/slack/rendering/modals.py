"""The modals: a reason, a word to type, an agent's form. All within the limits of a view."""

from __future__ import annotations

import re
from typing import Any

from django.http import QueryDict
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    CheckboxesElement,
    InputBlock,
    InputInteractiveElement,
    LinkButtonElement,
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
from approvals.desk.answer_forms import Field, answer_from, fields_of
from approvals.slack.rendering.blocks import are_told_apart, desk_link
from approvals.slack.rendering.signed_values import ModalValue
from approvals.slack.rendering.text import (
    SECTION_MOST,
    bold,
    fixed,
    one_line,
    plain,
    rich,
    shortened,
    words as said,
)

# What a view can hold, less what we put there ourselves.
MOST_FIELDS = 45
MOST_OPTIONS = 100
FEW_OPTIONS = 10  # radio buttons and checkboxes
INPUT_MOST = 3000
REASON, TYPED = "reason", "typed"
ANSWER = "answer"


def reject(value: ModalValue) -> View:
    reason = InputBlock(
        block_id=REASON,
        label=plain("Why? The agent reads it.", 150),
        element=PlainTextInputElement(action_id=REASON, multiline=True, min_length=1,
                                      max_length=2000, focus_on_load=True),
    )  # fmt: skip
    about = rich(said(value.button.about))
    return _modal("Reject", "Reject", [about, reason], value.signed())


def confirm(value: ModalValue) -> View:
    """For what cannot be undone: what it is and how much, to be typed."""
    blocks = [
        rich(said(value.button.about)),
        rich(
            bold("This cannot be undone."), said(" To approve it, type "), fixed(value.button.word)
        ),
        InputBlock(
            block_id=TYPED,
            label=plain(f"Type {value.button.word}", 150),
            element=PlainTextInputElement(action_id=TYPED, max_length=200, focus_on_load=True),
        ),
    ]
    return _modal("Approve", "Approve", blocks, value.signed())


def one_moment(value: ModalValue, name: str) -> View:
    """Opened before anything was looked up; the form follows, into the view of this name."""
    link = LinkButtonElement(
        text=plain("Answer on the desk"),
        url=desk_link("question", value.button.subject),
        action_id="open",
    )
    blocks = [
        rich(said("One moment… If nothing comes, close this and press the button again.")),
        ActionsBlock(elements=[link]),
    ]
    return _modal("Answer", "", blocks, value.signed(), name)


def trouble(text: str, url: str = "") -> View:
    blocks: list[Block] = [SectionBlock(text=plain(text))]
    if url:
        link = LinkButtonElement(text=plain("Open the desk"), url=url, action_id="open")
        blocks.append(ActionsBlock(elements=[link]))
    return _modal("Assent", "", blocks, "")


def form(question: Question, value: ModalValue) -> View:
    """The agent's form; one that no view can show as it is is answered on the desk."""
    fields = fields_of(question.form)
    if not _fits(fields):
        link = desk_link("question", question.pk)
        return trouble("Slack cannot show this form whole: answer on the desk.", link)
    blocks: list[Block] = [SectionBlock(text=plain(question.text, SECTION_MOST))]
    blocks += [_input(number, one) for number, one in enumerate(fields)]
    return _modal("Answer", "Answer", blocks, value.signed())


def _modal(title: str, submit: str, blocks: list[Any], metadata: str, name: str = "") -> View:
    return View(
        type="modal",
        external_id=name or None,
        callback_id=title.lower(),
        title=plain(title, 24),
        submit=plain(submit, 24) if submit else None,
        close=plain("Cancel" if submit else "Close", 24),
        blocks=blocks,
        private_metadata=metadata,
    )


def _fits(fields: list[Field]) -> bool:
    return len(fields) <= MOST_FIELDS and all(
        len(one.choices) <= MOST_OPTIONS
        and len(one.default) <= INPUT_MOST
        and shortened(one_line(one.label), 200) == one_line(one.label)
        and shortened(one.help, 500) == one.help
        and are_told_apart([choice.label for choice in one.choices])
        for one in fields
    )


# --- the fields of a form --------------------------------------------------------------------


def _input(number: int, one: Field) -> InputBlock:
    return InputBlock(
        block_id=_block_id(number),
        label=plain(one_line(one.label), 200),
        hint=plain(one.help, 500) if one.help else None,
        element=_element(one),
        optional=not one.is_required,
    )


def _block_id(number: int) -> str:
    return f"field.{number}"


def _element(one: Field) -> InputInteractiveElement:
    if one.kind == "yes_no":
        return _one_of([Option(value="true", text=plain("Yes")), _no()], one.default)
    if one.kind in {"choice", "several"}:
        options = [
            Option(value=str(index), text=plain(one_line(choice.label), 75))
            for index, choice in enumerate(one.choices)
        ]
        return _one_of(options, _chosen(one)) if one.kind == "choice" else _some_of(options)
    if one.kind == "number":
        is_whole = one.step == "1"
        return NumberInputElement(
            action_id=ANSWER,
            is_decimal_allowed=not is_whole,
            initial_value=one.default if _is_number(one.default, is_whole) else None,
        )
    return PlainTextInputElement(
        action_id=ANSWER,
        multiline=one.kind != "text",
        initial_value=one.default or None,
        max_length=INPUT_MOST,
    )


def _is_number(text: str, is_whole: bool) -> bool:
    return re.fullmatch(r"-?\d{1,15}" if is_whole else r"-?\d{1,15}(\.\d{1,15})?", text) is not None


def _no() -> Option:
    return Option(value="false", text=plain("No"))


def _chosen(one: Field) -> str:
    """The index of the choice that the form has by default."""
    for index, choice in enumerate(one.choices):
        if one.default and one.default in {choice.value, choice.label}:
            return str(index)
    return ""


def _one_of(options: list[Option], chosen: str) -> InputInteractiveElement:
    first = next((option for option in options if option.value == chosen), None)
    kind = RadioButtonsElement if len(options) <= FEW_OPTIONS else StaticSelectElement
    element: InputInteractiveElement = kind(action_id=ANSWER, options=options, initial_option=first)
    return element


def _some_of(options: list[Option]) -> InputInteractiveElement:
    kind = CheckboxesElement if len(options) <= FEW_OPTIONS else StaticMultiSelectElement
    element: InputInteractiveElement = kind(action_id=ANSWER, options=options)
    return element


# --- and back --------------------------------------------------------------------------------


def answer_of(state: dict[str, Any], schema: dict[str, Any]) -> Any:
    """What was filled in, in the shape of the form. Raises ``answer_forms.Unreadable``."""
    filled = QueryDict(mutable=True)
    for number, one in enumerate(fields_of(schema)):
        values = _values(state.get(_block_id(number), {}).get(ANSWER, {}), one)
        filled.setlist(one.input_name, values)
    return answer_from(filled, schema)


def _values(said_there: dict[str, Any], one: Field) -> list[str]:
    if (options := said_there.get("selected_options")) is not None:
        return [_value(option, one) for option in options]
    if (option := said_there.get("selected_option")) is not None:
        return [_value(option, one)]
    text = said_there.get("value")
    return [str(text)] if text is not None else []


def _value(option: dict[str, Any], one: Field) -> str:
    """An option is the number of its choice, because a value may be longer than Slack takes."""
    value = str(option.get("value", ""))
    if one.kind == "yes_no":
        return value
    known = dict(enumerate(choice.value for choice in one.choices))
    return known.get(int(value), "") if value.isascii() and value.isdigit() else ""


def errors_for(errors: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, str]:
    """Misfits of an answer, each at the field that it is about; the first, if it is about none."""
    numbers = {one.name: number for number, one in enumerate(fields_of(schema))}
    found: dict[str, str] = {}
    for error in errors:
        name = error["field"].strip("/").replace("/", ".").split(".")[0]
        found.setdefault(_block_id(numbers.get(name, 0)), error["message"][:1000])
    return found


def error_at(name: str, message: str, schema: dict[str, Any]) -> dict[str, str]:
    numbers = {one.name: number for number, one in enumerate(fields_of(schema))}
    return {_block_id(numbers.get(name, 0)): message[:1000]}
