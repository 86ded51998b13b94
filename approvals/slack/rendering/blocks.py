"""What a message shows: a row of the ledger, or a question, as Slack's blocks.

Every limit of Block Kit (https://docs.slack.dev/reference/block-kit) is kept by how the parts are
made, so that no payload, however long, loses its message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.urls import reverse
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    ContextBlock,
    HeaderBlock,
    LinkButtonElement,
    RichTextBlock,
    RichTextElementParts,
    RichTextListElement,
    RichTextSectionElement,
    SectionBlock,
)

from a2a.models import Question, QuestionState
from a2a.models.answerers import CLIENT
from approvals.desk import labels as words, policies, showing
from approvals.desk.answer_forms import Field, fields_of
from approvals.models import SlackMessage
from approvals.slack.rendering.signed_values import ButtonValue
from approvals.slack.rendering.text import (
    BUTTON_MOST,
    HEADER_MOST,
    bold,
    date,
    escaped,
    fixed,
    marked,
    moment,
    one_line,
    plain,
    quoted,
    rich,
    shortened,
    words as said,
)
from ledger import contracts
from ledger.models import Transaction, Verdict
from ledger.states import State

# Of all blocks together as JSON. Slack refuses longer messages (msg_blocks_too_long) from a size on
# that it does not tell; about 12,000 were refused.
MESSAGE_MOST = 9000
ABOUT_MOST = 100  # what a button says of its subject; it travels in the button
CHOICES_AS_BUTTONS = 5


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as it should be now. ``is_waiting``: somebody may still act on it."""

    text: str
    blocks: list[dict[str, Any]]
    is_waiting: bool
    became: str = ""

    @property
    def hash(self) -> str:
        return hashlib.sha256(json.dumps([self.text, self.blocks]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of the parts that may be long is shown: characters, or how many.

    Nobody decides on a message that is not ``whole``: it only leads to the desk.
    """

    summary: int
    warning: int
    words: int
    fields: int
    value: int
    warnings: int = 5
    is_whole: bool = False


# More than ``showing`` lets any part have, so that nothing is cut.
WHOLE = Detail(2900, 2900, 2900, fields=1000, value=2900, warnings=100, is_whole=True)
# The agent's own words give way first, and no warning ever does: an agent must not talk it away.
DETAILS = (
    Detail(summary=2900, warning=600, words=1500, fields=8, value=300),
    Detail(summary=2000, warning=300, words=300, fields=8, value=80),
    Detail(summary=1000, warning=150, words=100, fields=4, value=40),
)


def shown(copy: SlackMessage) -> Shown:
    """How this copy should look, from the tables as they are; in as much detail as fits."""
    for detail in (WHOLE, *DETAILS) if _may_be_whole(copy) else DETAILS:
        found = _shown(copy, detail)
        if len(json.dumps(found.blocks, ensure_ascii=False)) <= MESSAGE_MOST:
            break
    return found


def _may_be_whole(copy: SlackMessage) -> bool:
    if copy.question is not None:
        return showing.of_question(copy.question, showing.SLACK).is_complete
    assert copy.transaction is not None
    return showing.of(copy.transaction, showing.SLACK).is_complete


def _shown(copy: SlackMessage, detail: Detail) -> Shown:
    if copy.question is not None:
        return _question(copy, copy.question, detail)
    assert copy.transaction is not None
    return _transaction(copy, copy.transaction, detail)


def desk_link(name: str, *args: object) -> str:
    return f"{settings.PUBLIC_URL.rstrip('/')}{reverse(f'desk:{name}', args=args)}"


# --- a transaction ---------------------------------------------------------------------------


def _transaction(copy: SlackMessage, row: Transaction, detail: Detail) -> Shown:
    is_waiting = row.state == State.PREPARED
    blocks = [*_why(copy), *_headline(row.headline, detail)]
    blocks += _waiting(row, detail) if is_waiting else _outcome(row, detail)
    blocks += _facts(row, detail) if is_waiting else []
    blocks += [*_about(row), _transaction_actions(copy, row, detail)]
    became = "waits for sign-off" if is_waiting else words.what_became(row)
    text = f"{one_line(row.headline)}: {became}"
    return Shown(escaped(text), _as_dicts(blocks), is_waiting, became)


def _headline(summary: str, detail: Detail) -> Iterator[Block]:
    """The sentence large; whole below if it is longer than a headline may be."""
    yield HeaderBlock(text=plain(one_line(summary), HEADER_MOST))
    if shortened(one_line(summary), HEADER_MOST) != one_line(summary):
        yield SectionBlock(text=plain(_or_on_the_desk(summary, detail.summary)), expand=True)


def _or_on_the_desk(text: str, most: int) -> str:
    short = shortened(text, most)
    return short if short == text else f"{short}\n(The rest is on the desk.)"


def _waiting(row: Transaction, detail: Detail) -> Iterator[Block]:
    for warning in row.warnings[: detail.warnings]:
        yield quoted("Warning", str(warning), detail.warning)
    if (more := len(row.warnings) - detail.warnings) > 0:
        yield rich(bold(f"{more} more warning{'s' if more > 1 else ''} on the desk."))
    facts = [f"*Consequence*\n{row.consequence_level.lower().capitalize()}"]
    if row.amount is not None:
        facts.insert(0, f"*Amount*\n{policies.money(row)}")
    facts.append(f"*Lapses*\n{date(row.expires_at)}")
    yield SectionBlock(fields=[marked(fact) for fact in facts])
    yield rich(bold("To undo it: "), said(shortened(policies.undo_of(row), 500)))
    approved = [vote for vote in row.decisions.all() if vote.verdict == Verdict.APPROVE]
    if approved:
        names = ", ".join(vote.principal_name for vote in approved)
        missing = policies.still_missing(row)
        yield rich(bold(names), said(f" approved. {missing} more needed."))


def _outcome(row: Transaction, detail: Detail) -> Iterator[Block]:
    """``Approved by Alice Moreau on the desk · committed · receipt ch_123``"""
    parts = [bold(words.what_became(row))]
    if row.state != State.PREPARED and row.state != row.ending:
        parts.append(said(f" · {_became(row)}"))
    if row.receipt:
        parts += [said(" · receipt "), fixed(shortened(row.receipt, 200))]
    yield rich(*parts)
    if row.compensation_receipt:
        yield rich(said("Made up for · receipt "), fixed(row.compensation_receipt[:200]))
    if row.ending_reason and row.ending != "expired":
        yield quoted("Reason", row.ending_reason, min(600, detail.words))
    if row.error and row.error != row.ending_reason:
        yield quoted("What the tool said", row.error, min(600, detail.words))
    if row.state == State.IN_DOUBT:
        yield rich(said("It may or may not have happened: an operator has to look."))


def _became(row: Transaction) -> str:
    return {
        State.APPROVED: "waiting for a worker",
        State.COMMITTING: "being carried out",
        State.COMMITTED: "committed",
        State.IN_DOUBT: "outcome not known",
        State.ROLLING_BACK: "letting go of what was held",
        State.ABORTED: "nothing was done",
        State.FAILED: "failed, nothing was done",
        State.COMPENSATING: "being compensated",
        State.COMPENSATED: "committed, then compensated",
    }.get(State(row.state), str(row.get_state_display()))


def _facts(row: Transaction, detail: Detail) -> Iterator[Block]:
    """The payload as it was validated: what names the operation first, then the author's order."""
    fields = list(words.compared(row))
    tool = contracts.tools.get(row.tool)
    key = contracts.key_fields(tool.contract.operation_key) if tool else []
    fields.sort(key=lambda one: key.index(one.top) if one.top in key else len(key))
    if fields:
        kept = fields[: detail.fields]
        yield RichTextBlock(
            elements=[RichTextListElement(style="bullet",
                                          elements=[_fact(one, detail) for one in kept])]
        )  # fmt: skip
    if len(fields) > detail.fields:
        left = len(fields) - detail.fields
        yield ContextBlock(elements=[plain(f"{left} more fields are on the desk.")])
    if row.stated_reason.strip():
        yield quoted("In the agent's words", row.stated_reason, detail.words)


def _fact(one: words.Field, detail: Detail) -> RichTextSectionElement:
    parts = [bold(shortened(one.name, detail.value)), said(": ")]
    if one.is_validated:
        parts.append(_value(one.validated, detail))
    if one.is_changed:
        parts += [said(" changed from "), _value(one.requested, detail)]
    elif not one.is_validated:
        parts += [said("asked for as "), _value(one.requested, detail)]
    return RichTextSectionElement(elements=parts)


def _value(value: Any, detail: Detail) -> RichTextElementParts.Text:
    return fixed(shortened(words.plain(value), detail.value))


def _about(row: Transaction) -> Iterator[Block]:
    about = (
        f"Asked for by {row.proposed_by_name} ({row.proposed_by}) · {row.tool} · "
        f"{row.risk_level.lower()} risk · {row.tenant}"
    )
    yield ContextBlock(elements=[plain(one_line(about), 500)])
    if row.state == State.PREPARED:
        key = shortened(row.operation_key, 500)
        yield ContextBlock(elements=[plain(f"Operation key: {key}", 600)])


def _transaction_actions(copy: SlackMessage, row: Transaction, detail: Detail) -> Block:
    link = _open(desk_link("transaction", row.pk))
    if row.state != State.PREPARED:
        return ActionsBlock(elements=[link])
    if policies.only_on_the_desk(row) or not detail.is_whole:
        return ActionsBlock(elements=[_open(link.url or "", "Decide on the desk", "primary")])
    is_irreversible = policies.is_irreversible(row)
    label = f"Approve {policies.money(row)}".strip()
    word = policies.confirmation_word(row) if is_irreversible else ""

    def press(verb: str) -> str:
        about = shortened(one_line(row.action_summary), ABOUT_MOST)
        team = copy.workspace.team_id
        digest = row.intent_digest
        return ButtonValue(verb, str(row.pk), digest, team, copy.pk, about, word).signed()

    approve = ButtonElement(
        text=plain(f"{label}…" if is_irreversible else label, BUTTON_MOST),
        action_id="approve",
        value=press("approve"),
        style="primary",
    )
    reject = ButtonElement(text=plain("Reject…"), action_id="reject", value=press("reject"))
    return ActionsBlock(elements=[approve, reject, link])


# --- a question ------------------------------------------------------------------------------


def _question(copy: SlackMessage, question: Question, detail: Detail) -> Shown:
    is_waiting = question.state == QuestionState.OPEN
    blocks: list[Block] = [
        *_why(copy),
        HeaderBlock(text=plain(f"{one_line(question.asked_by_name)} asks", HEADER_MOST)),
        SectionBlock(text=plain(_or_on_the_desk(question.headline, detail.summary)), expand=True),
        *_evidence(question, detail),
        *(_waits_for_answer(question) if is_waiting else _answered(question, detail)),
    ]
    about = f"{question.task.skill_slug} · {question.tenant}"
    blocks.append(ContextBlock(elements=[plain(one_line(about), 500)]))
    blocks.append(_question_actions(copy, question, detail))
    became = "waits for an answer" if is_waiting else words.what_became_of_it(question)
    text = f"{one_line(question.asked_by_name)} asks: {one_line(question.headline)} ({became})"
    return Shown(escaped(text), _as_dicts(blocks), is_waiting, became)


def _evidence(question: Question, detail: Detail) -> Iterator[RichTextBlock]:
    """What the agent shows for it: all of it, or else two parts and the rest on the desk."""
    for part in question.evidence if detail.is_whole else question.evidence[:2]:
        text, most = words.evidence(part), detail.words if detail.is_whole else 900
        yield quoted("Evidence", _or_on_the_desk(text, most), most + 100)


def _waits_for_answer(question: Question) -> Iterator[Block]:
    yield rich(bold("Answer before "), moment(question.expires_at))
    if CLIENT in question.may_answer:
        yield ContextBlock(elements=[plain("The agent that asked for the task may answer too.")])


def _answered(question: Question, detail: Detail) -> Iterator[Block]:
    yield rich(bold(words.what_became_of_it(question)))
    if question.state == QuestionState.ANSWERED:
        yield quoted("Answer", words.plain(question.answer), detail.words)


def _question_actions(copy: SlackMessage, question: Question, detail: Detail) -> Block:
    link = _open(desk_link("question", question.pk))
    if question.state != QuestionState.OPEN:
        return ActionsBlock(elements=[link])
    if not detail.is_whole:
        return ActionsBlock(elements=[_open(link.url or "", "Answer on the desk", "primary")])

    def press(verb: str, choice: int = -1) -> str:
        about = shortened(one_line(question.text), ABOUT_MOST)
        digest, team = digest_of(question), copy.workspace.team_id
        return ButtonValue(
            verb, str(question.pk), digest, team, copy.pk, about, "", choice
        ).signed()

    choices = choices_of(question.form)
    buttons: list[Any] = [
        ButtonElement(
            text=plain(one_line(label), BUTTON_MOST),
            action_id=f"choose.{number}",
            value=press("choose", number),
        )
        for number, (label, _) in enumerate(choices)
    ]
    if not buttons:
        form = ButtonElement(
            text=plain("Answer…"), action_id="answer", value=press("answer"), style="primary"
        )
        buttons = [form]
    return ActionsBlock(elements=[*buttons, link])


def digest_of(question: Question) -> str:
    """Not by RFC 8785, as for intents: a form may hold numbers that it does not allow."""
    said = json.dumps([question.text, question.form], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def choices_of(form: dict[str, Any]) -> list[tuple[str, Any]]:
    """Label and value of each answer, if the form is one choice of a few; otherwise none."""
    fields = fields_of(form)
    if len(fields) != 1 or fields[0].name:
        return []
    found = _choices(fields[0])
    labels = [label for label, _ in found]
    return found if len(found) <= CHOICES_AS_BUTTONS and are_told_apart(labels) else []


def are_told_apart(labels: list[str]) -> bool:
    """Whether each is whole on a button, and none looks like another."""
    whole = [one_line(label) for label in labels]
    fits = all(label and shortened(label, BUTTON_MOST) == label for label in whole)
    return fits and len(set(whole)) == len(whole)


def _choices(one: Field) -> list[tuple[str, Any]]:
    if one.kind == "yes_no":
        return [("Yes", True), ("No", False)]
    if one.kind == "choice":
        return [(choice.label, json.loads(choice.value)) for choice in one.choices]
    return []


# --- parts -----------------------------------------------------------------------------------


def _why(copy: SlackMessage) -> Iterator[Block]:
    if copy.why:
        yield ContextBlock(elements=[plain(copy.why, 500)])


def _open(url: str, label: str = "Open", style: str | None = None) -> LinkButtonElement:
    return LinkButtonElement(text=plain(label), url=url, action_id="open", style=style)


def _as_dicts(blocks: list[Block]) -> list[dict[str, Any]]:
    return [block.to_dict() for block in blocks]
