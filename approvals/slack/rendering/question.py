"""Contents of a question's message, and its buttons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    ContextBlock,
    HeaderBlock,
    SectionBlock,
)

from a2a import origins
from a2a.models import Question, QuestionState
from a2a.models.answerers import CLIENT
from approvals.models import SlackMessage
from approvals.presentation import labels
from approvals.presentation.forms import Node, answer_form
from approvals.slack.rendering.parts import (
    BUTTON_ABOUT_MOST,
    Detail,
    came_over,
    cut_with_hint,
    desk_link,
    open_button,
)
from approvals.slack.rendering.signed_values import ButtonValue
from approvals.slack.rendering.text import (
    BUTTON_MOST,
    HEADER_MOST,
    bold,
    one_line,
    pieces,
    plain,
    quoted,
    regular_date,
    rich,
    shortened,
)

CHOICES_AS_BUTTONS = 5


def content(question: Question, detail: Detail) -> Iterator[Block]:
    """Everything but the buttons."""
    asks = _("{name} asks").format(name=one_line(question.asked_by_name))
    yield HeaderBlock(text=plain(asks, HEADER_MOST))
    yield SectionBlock(text=plain(cut_with_hint(question.headline, detail.summary)), expand=True)
    yield from _evidence(question, detail)
    if question.state == QuestionState.OPEN:
        yield from _deadline(question)
    else:
        yield from _outcome(question, detail)
    origin = f"{question.task.skill_slug} · {question.tenant}"
    yield ContextBlock(elements=[plain(one_line(origin), 500)])
    yield from came_over(origins.of_task(question.task))


def actions(message: SlackMessage, question: Question, detail: Detail) -> Block:
    """A button for each answer, or one that opens the form; and the link to the desk."""
    url = desk_link("question", question.pk)
    if question.state != QuestionState.OPEN:
        return ActionsBlock(elements=[open_button(url)])
    if not detail.is_whole:
        return ActionsBlock(elements=[open_button(url, _("Answer on the desk"), "primary")])
    buttons: list[Any] = [
        ButtonElement(
            text=plain(one_line(label), BUTTON_MOST),
            action_id=f"choose.{number}",
            value=_button_value("choose", message, question, number).signed(),
        )
        for number, (label, _value) in enumerate(choices_of(question.form))
    ]
    if not buttons:
        form = ButtonElement(
            text=plain(_("Answer…")),
            action_id="answer",
            value=_button_value("answer", message, question).signed(),
            style="primary",
        )
        buttons = [form]
    return ActionsBlock(elements=[*buttons, open_button(url)])


def _button_value(
    verb: str, message: SlackMessage, question: Question, choice: int = -1
) -> ButtonValue:
    return ButtonValue(
        verb=verb,
        subject=str(question.pk),
        digest=digest_of(question),
        team=message.workspace.team_id,
        message=message.pk,
        about=shortened(one_line(question.text), BUTTON_ABOUT_MOST),
        choice=choice,
    )


def _evidence(question: Question, detail: Detail) -> Iterator[Block]:
    """All that the agent shows for it; or else two parts, and the rest on the desk."""
    for part in question.evidence if detail.is_whole else question.evidence[:2]:
        text, most = labels.evidence(part), detail.prose if detail.is_whole else 900
        yield quoted(_("Evidence"), cut_with_hint(text, most), most + 100)


def _deadline(question: Question) -> Iterator[Block]:
    yield rich(*pieces(_("Answer before {when}"), when=regular_date(question.expires_at)))
    if CLIENT in question.may_answer:
        yield ContextBlock(elements=[plain(_client_of(question))])


def _client_of(question: Question) -> str:
    if question.task.submitter.user_key is None:
        return _("The agent that asked for the task may answer too.")
    text = _("{name}, who gave the task, may answer too.")
    return text.format(name=one_line(question.task.submitted_by_name))


def _outcome(question: Question, detail: Detail) -> Iterator[Block]:
    yield rich(bold(labels.question_outcome(question)))
    if question.state == QuestionState.ANSWERED:
        yield quoted(_("Answer"), labels.plain(question.answer), detail.prose)


def digest_of(question: Question) -> str:
    """SHA-256 of the text and the form, as hexadecimal digits.

    Not by RFC 8785, as for intents: a form may hold numbers that it does not allow.
    """
    shown = json.dumps([question.text, question.form], sort_keys=True)
    return hashlib.sha256(shown.encode()).hexdigest()


def choices_of(form: dict[str, Any]) -> list[tuple[str, Any]]:
    """Label and value of each answer, if the form is one choice of a few; otherwise none."""
    choices = _choices(answer_form(form))
    texts = [label for label, _value in choices]
    return choices if len(choices) <= CHOICES_AS_BUTTONS and are_distinct(texts) else []


def are_distinct(labels: list[str]) -> bool:
    """True if each label fits on a button in full, and no two look the same there."""
    lines = [one_line(label) for label in labels]
    fit = all(line and shortened(line, BUTTON_MOST) == line for line in lines)
    return fit and len(set(lines)) == len(lines)


def _choices(field: Node) -> list[tuple[str, Any]]:
    if field.kind == "yes_no":
        return [(_("Yes"), True), (_("No"), False)]
    if field.kind in {"choice", "select"}:
        return [(choice.label, json.loads(choice.value)) for choice in field.choices]
    return []
