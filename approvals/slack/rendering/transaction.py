"""Contents of a transaction's message, and its buttons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _, ngettext
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

from a2a import origins
from approvals.desk import (
    Seat,
    brake_of,
    can_be_allowed,
    policies,
    seats_of,
    why_signed,
    why_stopped,
    word_for_machines,
)
from approvals.models import SlackMessage
from approvals.presentation import labels, state_label, with_next_step
from approvals.presentation.labels import first_large
from approvals.slack.rendering import stop
from approvals.slack.rendering.parts import (
    BUTTON_ABOUT_MOST,
    Detail,
    came_over,
    cut_with_hint,
    desk_link,
    open_button,
)
from approvals.slack.rendering.signed_values import (
    BY_RULES,
    NO_CHOICE,
    WITH_OPTIONS,
    ButtonValue,
)
from approvals.slack.rendering.text import (
    BUTTON_MOST,
    HEADER_MOST,
    Piece,
    bold,
    fixed,
    mrkdwn,
    mrkdwn_date,
    one_line,
    pieces,
    plain,
    quoted,
    regular,
    rich,
    shortened,
)
from approvals.slack.rendering.usual import usual
from ledger import contracts
from ledger.models import Transaction
from ledger.states import FINAL, EventKind, State
from ledger.tools import is_for_agent, tool_of

# Nothing is to be stopped any more.
ENDING = FINAL | {State.ROLLING_BACK}


def content(row: Transaction, detail: Detail) -> Iterator[Block]:
    """Everything but the buttons."""
    yield from _headline(row.headline, detail)
    if row.state == State.PREPARED:
        yield from _talk(row, detail)
        yield from _terms(row, detail)
        yield from usual(row)
        yield from _payload(row, detail)
    else:
        yield from _outcome(row, detail)
    yield from _origin(row)


def actions(message: SlackMessage, row: Transaction, detail: Detail) -> Block:
    """Approve and reject, if the message shows all there is; the link to the desk; and Stop…

    What is stopped cannot be approved.
    """
    url = desk_link("transaction", row.pk)
    if row.state in ENDING:
        return ActionsBlock(elements=[open_button(url)])
    halt = stop.button(message.workspace.team_id, str(row.pk), message.pk)
    if row.state != State.PREPARED:
        return ActionsBlock(elements=[open_button(url), halt])
    needs_the_desk = policies.only_on_the_desk(row) or policies.asks_for_note(row)
    if needs_the_desk or not detail.is_whole:
        is_signed = policies.asks_to_sign(row)
        label = _("Open to sign") if is_signed else _("Decide on the desk")
        return ActionsBlock(elements=[open_button(url, label, "primary"), halt])
    asks_to_type = policies.asks_to_type(row)
    asked_as = origins.asked_as(row)
    has_options = asked_as is not None and bool(asked_as.reject_options)
    label = _approve_label(row)
    approve = ButtonElement(
        text=plain(f"{label}…" if asks_to_type else label, BUTTON_MOST),
        action_id="approve",
        value=_button_value("approve", message, row).signed(),
        style="primary",
    )
    reject = ButtonElement(
        text=plain(_("Reject…")),
        action_id="reject",
        value=_button_value("reject", message, row, has_options=has_options).signed(),
    )
    other = ButtonElement(
        text=plain(_("More…")),
        action_id="more",
        value=_button_value("more", message, row).signed(),
    )
    decides = [reject] if brake_of(row) is not None else [approve, reject]
    decides.append(other)
    more = [] if brake_of(row) is not None or not can_be_allowed(row) else [_allow_button(row)]
    return ActionsBlock(elements=[*decides, open_button(url), *more, halt])


def _allow_button(row: Transaction) -> LinkButtonElement:
    """The bounds of a signature in advance are chosen on the desk."""
    url = desk_link("transaction-allow", row.pk)
    return LinkButtonElement(text=plain(_("Approve and allow…")), url=url, action_id="allow")


def _approve_label(row: Transaction) -> str:
    if row.amount is None:
        return _("Approve")
    return _("Approve {amount}").format(amount=policies.money(row))


def _button_value(
    verb: str, message: SlackMessage, row: Transaction, *, has_options: bool = False
) -> ButtonValue:
    return ButtonValue(
        verb=verb,
        subject=str(row.pk),
        digest=row.intent_digest,
        team=message.workspace.team_id,
        message=message.pk,
        about=shortened(one_line(row.action_summary), BUTTON_ABOUT_MOST),
        word=word_for_machines(row) if policies.asks_to_type(row) else "",
        choice=_choice(verb, row, has_options=has_options),
    )


def _choice(verb: str, row: Transaction, *, has_options: bool) -> int:
    if verb == "approve":
        is_by_rules = policies.asks_to_type(row) and not policies.is_irreversible(row)
        return BY_RULES if is_by_rules else NO_CHOICE
    return WITH_OPTIONS if has_options else NO_CHOICE


def _headline(summary: str, detail: Detail) -> Iterator[Block]:
    """The summary as a header; in full below it if it is longer than a header may be."""
    yield HeaderBlock(text=plain(one_line(summary), HEADER_MOST))
    if shortened(one_line(summary), HEADER_MOST) != one_line(summary):
        yield SectionBlock(text=plain(cut_with_hint(summary, detail.summary)), expand=True)


def _talk(row: Transaction, detail: Detail) -> Iterator[Block]:
    """News of it: a change with its maker, and the question that waits for its agent."""
    for kind, template in (
        (EventKind.REVISED, _("{who} changed it; look at what is different below.")),
        (EventKind.ASKED, _("{who} has asked its agent; the clock rests until the answer.")),
    ):
        is_so = row.revision > 1 if kind == EventKind.REVISED else row.asked_at is not None
        event = row.events.filter(kind=kind).order_by("-seq").first() if is_so else None
        if event is not None:
            yield rich(*pieces(template, who=bold(event.principal_name)))
            if event.reason:
                yield quoted(_("In their words"), event.reason, min(600, detail.prose))


def _terms(row: Transaction, detail: Detail) -> Iterator[Block]:
    """Warnings, amount, consequence, deadline, how to undo it, and who has approved so far."""
    if stopped := why_stopped(row):
        yield rich(bold(shortened(stopped, detail.warning)))
    for warning in row.warnings[: detail.warnings]:
        yield quoted(_("Warning"), str(warning), detail.warning)
    if (more := len(row.warnings) - detail.warnings) > 0:
        text = ngettext("One more warning on the desk.", "{count} more warnings on the desk.", more)
        yield rich(bold(text.format(count=more)))
    terms = [_term(_("Undo"), first_large(labels.undo_words(row.consequence_level)))]
    if row.amount is not None:
        terms.insert(0, _term(_("Amount"), policies.money(row)))
    terms.append(_term(_("Lapses"), mrkdwn_date(row.expires_at)))
    yield SectionBlock(fields=[mrkdwn(term) for term in terms])
    if in_contract := policies.undo_in_contract(row):
        yield rich(bold(_("To undo it:")), regular(" "), regular(shortened(in_contract, 500)))
    if passed_on := policies.passed_on_by(row):
        who = bold(passed_on.principal_name)
        yield rich(*pieces(_("{who} passed it on to people."), who=who))
        yield quoted(_("Reason"), passed_on.reason, min(600, detail.prose))
    if why := why_signed(row):
        yield rich(regular(shortened(why, min(600, detail.prose))))
    yield from _signed(row)


def _signed(row: Transaction) -> Iterator[Block]:
    """Each seat, where rules ask for groups; else who has approved so far."""
    if seats := seats_of(row):
        parts: list[Piece] = []
        for seat in seats:
            parts += _seat(seat)
        yield rich(*parts[:-1])
        return
    approvals = policies.counted_approvals(row)
    if approvals:
        names = bold(", ".join(approval.principal_name for approval in approvals))
        missing = policies.missing_approvals(row)
        text = ngettext(
            "{names} approved. One more is needed.",
            "{names} approved. {count} more are needed.",
            missing,
        )
        yield rich(*pieces(text, names=names, count=str(missing)))


def _seat(seat: Seat) -> list[Piece]:
    """``● Alice Moreau of finance`` or ``○ one of finance``, and an end of line."""
    end = regular("\n")
    if seat.signed is None:
        text = _("one of {group}").format(group=seat.group) if seat.group else _("a manager")
        return [regular(f"○ {text}"), end]
    name = bold(seat.signed.principal_name)
    signed = pieces(_("{name} of {group}"), name=name, group=seat.group) if seat.group else [name]
    return [regular("● "), *signed, end]


def _term(name: str, value: str) -> str:
    return f"*{name}*\n{value}"


def _outcome(row: Transaction, detail: Detail) -> Iterator[Block]:
    """``Approved by Alice Moreau on the desk · committed · receipt ch_123``"""
    parts: list[Piece] = [bold(labels.outcome(row))]
    if row.state != State.PREPARED and row.state != row.ending:
        parts.append(regular(f" · {state_label(row)}"))
    if row.receipt:
        receipt = fixed(shortened(row.receipt, 200))
        parts += pieces(" · " + _("receipt {receipt}"), receipt=receipt)
    yield rich(*parts)
    if row.compensation_receipt:
        receipt = fixed(row.compensation_receipt[:200])
        yield rich(*pieces(_("Compensated · receipt {receipt}"), receipt=receipt))
    if row.ending_reason and row.ending != "expired":
        yield quoted(_("Reason"), row.ending_reason, min(600, detail.prose))
    if row.error and row.error != row.ending_reason:
        yield quoted(_("What the tool said"), row.error, min(600, detail.prose))
    if row.state == State.IN_DOUBT:
        yield rich(regular(with_next_step(row)))


def _payload(row: Transaction, detail: Detail) -> Iterator[Block]:
    """The payload as it was validated: the fields of the operation key first, then the others in
    the order of the tool's author; and the agent's reason."""
    fields = list(labels.compared(row))
    tool = tool_of(row)
    key = contracts.key_fields(tool.contract.operation_key) if tool else []
    fields.sort(key=lambda field: key.index(field.top) if field.top in key else len(key))
    if fields:
        lines = [_field(field, detail) for field in fields[: detail.fields]]
        yield RichTextBlock(elements=[RichTextListElement(style="bullet", elements=lines)])
    if len(fields) > detail.fields:
        left = len(fields) - detail.fields
        text = ngettext(
            "One more field is on the desk.", "{count} more fields are on the desk.", left
        )
        yield ContextBlock(elements=[plain(text.format(count=left))])
    if row.evidence:
        text = ngettext(
            "Evidence: one attachment, on the desk.",
            "Evidence: {count} attachments, on the desk.",
            len(row.evidence),
        )
        yield rich(bold(text.format(count=len(row.evidence))))
    if row.stated_reason.strip():
        yield quoted(_("In the agent's words"), row.stated_reason, detail.prose)


def _field(field: labels.Field, detail: Detail) -> RichTextSectionElement:
    parts: list[Piece] = [bold(shortened(field.name, detail.value)), regular(": ")]
    if field.is_validated:
        parts.append(_value(field.validated, detail))
    if field.is_changed:
        parts += pieces(" " + _("changed from {value}"), value=_value(field.requested, detail))
    elif not field.is_validated:
        parts += pieces(_("asked for as {value}"), value=_value(field.requested, detail))
    return RichTextSectionElement(elements=parts)


def _value(value: Any, detail: Detail) -> RichTextElementParts.Text:
    return fixed(shortened(labels.plain(value), detail.value))


def _origin(row: Transaction) -> Iterator[Block]:
    """The agent that asked for it, with which tool, for which tenant."""
    asked = _("Asked for by {name} ({principal})").format(
        name=row.proposed_by_name, principal=row.proposed_by
    )
    risk = _("{risk} risk").format(risk=labels.risk_words(row.risk_level))
    origin = [asked, row.tool, risk, row.tenant]
    if host := labels.where_it_runs(row):
        runs = (
            _("runs at {host}, over MCP")
            if labels.how_it_runs(row) == "mcp"
            else _("runs at {host}, over signed HTTP")
        )
        origin += [runs.format(host=host), *labels.not_promised(row)]
    if audience := labels.permit_for(row):
        origin.append(
            _("the agent carries it out itself, with a permit for {audience}").format(
                audience=audience
            )
        )
    if is_for_agent(row):
        origin.append(_("the agent runs this itself; no receipt comes back"))
    elif asked_as := origins.asked_as(row):
        text = _("asked for as {function}; Assent carries this out, the agent's own does not run")
        origin.append(text.format(function=asked_as.function))
    yield ContextBlock(elements=[plain(one_line(" · ".join(origin)), 700)])
    yield from came_over(origins.of_transaction(row))
    if row.state == State.PREPARED:
        key = shortened(row.operation_key, 500)
        text = _("Operation key: {key}").format(key=key)
        yield ContextBlock(elements=[plain(text, 600)])
