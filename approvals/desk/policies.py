"""Rights to decide, settle, answer and cancel. The default is no; every no has a reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.utils.translation import gettext as _, gettext_lazy, gettext_noop

from a2a.models import Question, QuestionState, Task
from a2a.models.answerers import CLIENT
from approvals.desk import seats
from approvals.desk.brakes import brake_of, why_stopped
from approvals.desk.seats import counted_approvals as counted_approvals
from approvals.http.middleware import Roles
from approvals.models import Membership, Role
from approvals.people import name_of, names_of
from approvals.presentation import amount_written, full_display, in_words
from ledger.contracts import ConsequenceLevel
from ledger.models import Decision, Review, Transaction, Verdict
from ledger.sign_off import groups
from ledger.sign_off.rules import Strength
from ledger.states import Outcome, State
from ledger.tools import tool_of
from ledger.transactions import (
    described_settlement,
    keepers_of,
    needs_second_operator,
    open_outcomes,
)


@dataclass(frozen=True, slots=True)
class May:
    """A permission, or a refusal with its reason."""

    is_allowed: bool
    why_not: str = ""

    def __bool__(self) -> bool:
        return self.is_allowed


YES = May(True)
ROLES_IN_PLURAL = {
    Role.APPROVER: gettext_lazy("managers ({names})"),
    Role.OPERATOR: gettext_lazy("operators ({names})"),
}


def may_decide(row: Transaction, principal: str, roles: Roles, now: datetime) -> May:
    """Yes, or why this person may not approve now. Who may not may still be one who rejects."""
    if not (may := may_change(row, principal, roles, now)):
        return may
    if row.quorum > 1 and principal in seats.makers_of(row):
        return May(False, _("You changed it, and two others have to approve. You can reject it."))
    if any(decision.kept_by == principal for decision in counted_approvals(row)):
        return May(False, _("An agent that you keep has approved it: together you have one vote."))
    return _by_the_rules(row, principal)


def may_change(row: Transaction, principal: str, roles: Roles, now: datetime) -> May:
    """Yes, or why this person may not correct it now."""
    if not (may := may_talk(row, principal, roles, now)):
        return may
    if stopped := why_stopped(row):
        return May(False, stopped)
    return YES


def may_talk(row: Transaction, principal: str, roles: Roles, now: datetime) -> May:
    """Yes, or why this person may not ask its agent, nor give it more time now."""
    if not (may := may_reject(row, principal, roles, now)):
        return may
    if principal in barred_keepers_of(row):
        return May(False, _("You keep the agent that proposed it; somebody else has to approve."))
    return YES


def may_note(row: Transaction, roles: Roles) -> May:
    """Yes, or why this person may not leave a note for colleagues; also once it is decided."""
    if not roles.get(row.tenant, frozenset()) & {Role.APPROVER, Role.OPERATOR}:
        return May(
            False,
            _("Only managers and operators of {tenant} leave notes.").format(tenant=row.tenant),
        )
    if row.content_erased_at is not None:
        return May(False, _("Its content was erased."))
    return YES


def _by_the_rules(row: Transaction, principal: str) -> May:
    """Yes, or why an approval of this person fills no seat."""
    terms = seats.terms_of(row)
    if terms.is_denied:
        return May(False, _("The rules deny it by now: nobody can approve it."))
    if not terms.groups or seats.can_fill(row, groups.groups_of(row.tenant, principal)):
        return YES
    open_groups = row.open_seats or []
    names = _(" and ").join(open_groups)
    return May(
        False,
        _("It waits for {groups}, and you are not in it. You can reject it.").format(groups=names)
        if len(open_groups) == 1
        else _("It waits for {groups}, and you are in neither. You can reject it.").format(
            groups=names
        ),
    )


def may_reject(row: Transaction, principal: str, roles: Roles, now: datetime) -> May:
    """Yes, or why this person may not reject now. A rejection fills no seat."""
    if row.state != State.PREPARED:
        return May(False, _("It is {state}.").format(state=in_words(row.get_state_display())))
    if row.expires_at <= now and brake_of(row) is None:
        return May(False, _("Its time is up; the transaction is expiring."))
    if Role.APPROVER not in roles.get(row.tenant, frozenset()):
        return May(
            False,
            _("Only a manager of {tenant} may decide. {who}").format(
                tenant=row.tenant, who=who_can(row.tenant)
            ),
        )
    if row.proposed_by == principal:
        return May(False, _("You proposed it yourself; somebody else has to decide."))
    given = any(decision.principal == principal for decision in row.decisions.all())
    if given and not seats.may_sign_again(row, principal):
        return May(False, _("You have approved it. It waits for another manager."))
    return YES


def only_on_the_desk(row: Transaction) -> bool:
    """True if only the desk may accept the decision. True also for an undeclared tool."""
    tool = tool_of(row)
    terms = seats.terms_of(row)
    is_signed = terms.strength == Strength.PASSKEY
    return tool is None or tool.contract.web_only or terms.desk_only or is_signed


def asks_for_note(row: Transaction) -> bool:
    """True if the rules want to know why it is approved; only the desk has a place to say it."""
    return seats.terms_of(row).needs_note


def asks_to_type(row: Transaction) -> bool:
    """True if everybody types the amount, or the name: it cannot be undone, or the rules say so."""
    strength = seats.terms_of(row).strength
    return strength == Strength.TYPED or (is_irreversible(row) and strength != Strength.PASSKEY)


def asks_to_sign(row: Transaction) -> bool:
    """True if everybody signs it with a passkey."""
    return seats.terms_of(row).strength == Strength.PASSKEY


def may_decide_together(row: Transaction, may: May) -> May:
    """Yes, or why it is decided on its own page only, and not together with others.

    ``may`` is what ``may_decide`` says.
    """
    if not may:
        return may
    terms = seats.terms_of(row)
    if terms.one_by_one or terms.needs_note or asks_to_type(row) or asks_to_sign(row):
        return May(False, _("The rules, or what it does, ask to decide on it alone."))
    if row.evidence or not full_display.coverage(row, full_display.DESK).is_complete:
        return May(False, _("There is more to see of it than fits beside others."))
    return YES


def may_operate(row: Transaction, principal: str, roles: Roles) -> May:
    """Yes, or why this person may not settle what is in doubt, or compensate."""
    if Role.OPERATOR not in roles.get(row.tenant, frozenset()):
        operators = who_can(row.tenant, Role.OPERATOR)
        return May(
            False,
            _("Only an operator of {tenant} may do that. {who}").format(
                tenant=row.tenant, who=operators
            ),
        )
    if row.proposed_by == principal:
        return May(False, _("You proposed it yourself; somebody else has to do that."))
    if principal in barred_keepers_of(row):
        return May(False, _("You keep the agent that proposed it; somebody else has to do that."))
    return YES


def may_review(row: Review, principal: str, roles: Roles) -> May:
    """Yes, or why this person may not say what they think of a supervisor's decision."""
    decision, tx = row.decision, row.decision.transaction
    if row.verdict:
        return May(False, _("{name} has reviewed it.").format(name=row.reviewer_name))
    if Role.APPROVER not in roles.get(row.tenant, frozenset()):
        return May(False, _("Only a manager of {tenant} may review it.").format(tenant=row.tenant))
    if tx.state == State.PREPARED:
        return May(False, _("It is not decided yet; review it afterwards."))
    if principal in {decision.kept_by, *keepers_of(tx.proposed_by, tx.created_at)}:
        return May(False, _("You keep one of its agents; somebody else has to review it."))
    if any(given.principal == principal for given in tx.decisions.all()):
        return May(False, _("You decided on it yourself; somebody else has to review it."))
    return YES


def barred_keepers_of(row: Transaction) -> frozenset[str]:
    """The people who have kept the proposing agent since, who may not approve or settle it.

    Read once for each instance of the row: a page asks several times.
    """
    if row.keeper_may_sign:
        return frozenset()
    if "barred_keepers" not in vars(row):
        vars(row)["barred_keepers"] = keepers_of(row.proposed_by, row.created_at)
    keepers: frozenset[str] = vars(row)["barred_keepers"]
    return keepers


def may_answer(question: Question, principal: str, roles: Roles, now: datetime) -> May:
    """Yes, or why this person may not answer now."""
    if question.state != QuestionState.OPEN:
        return May(False, _("It is {state}.").format(state=in_words(question.get_state_display())))
    if question.expires_at <= now:
        return May(False, _("Its time is up; the task is being canceled."))
    # A viewer who is named may not answer: being named does not replace a role.
    own_roles = roles.get(question.tenant, frozenset()) & {Role.APPROVER, Role.OPERATOR}
    own = {principal, *own_roles}
    if question.task.submitted_by == principal:
        own.add(CLIENT)
    if own_roles and own & set(question.may_answer):
        return YES
    return May(False, _("You may not answer it. {who}").format(who=who_may_answer(question)))


def who_may_answer(question: Question) -> str:
    """A sentence with everybody who may answer: roles and their holders, people, the agent."""
    answerers = [
        ROLES_IN_PLURAL[role].format(names=", ".join(holders(question.tenant, role)) or _("nobody"))
        for role in (Role.APPROVER, Role.OPERATOR)
        if role in question.may_answer
    ]
    answerers += names_of(name for name in question.may_answer if ":" in name)
    if CLIENT in question.may_answer:
        answerers.append(_client_of(question.task))
    if not answerers:
        return _("Nobody may answer it.")
    return _("It may be answered by: {who}.").format(who=_(", or ").join(answerers))


def _client_of(task: Task) -> str:
    if task.submitter.user_key is None:
        return _("the agent that submitted the task")
    return _("{name}, who gave the task").format(name=task.submitted_by_name)


def may_give(tenant: str, roles: Roles) -> May:
    """Yes, or why this person may not give work to the agents of a tenant."""
    if Role.APPROVER in roles.get(tenant, frozenset()):
        return YES
    return May(
        False,
        _("Only a manager of {tenant} may give work. {who}").format(
            tenant=tenant, who=who_can(tenant)
        ),
    )


def may_cancel(task: Task, roles: Roles) -> May:
    """Yes, or why this person may not stop a task."""
    if task.is_final:
        return May(False, _("It is {state}.").format(state=in_words(task.get_state_display())))
    if not roles.get(task.tenant, frozenset()) & {Role.APPROVER, Role.OPERATOR}:
        return May(
            False,
            _("Only managers and operators of {tenant} may cancel tasks.").format(
                tenant=task.tenant
            ),
        )
    if task.transaction_id is not None:
        return May(False, _("It stands for a transaction: decide that one."))
    return YES


def who_can(tenant: str, role: Role = Role.APPROVER) -> str:
    """A sentence with the people who have the role: ``One of: Alice Moreau, Bob Tanaka.``"""
    if not (names := holders(tenant, role)):
        return _("Nobody has that role yet; an operator can give it in Settings, People.")
    return _("One of: {names}.").format(names=", ".join(names))


def holders(tenant: str, role: Role) -> list[str]:
    """The names of the first six people who have the role."""
    people = User.objects.filter(
        memberships__in=Membership.objects.filter(tenant=tenant, role=role), is_active=True
    ).order_by("first_name", "username")[:6]
    return [name_of(person) for person in people]


def passed_on_by(row: Transaction) -> Decision | None:
    """The decision by which a supervising agent left it to people."""
    passed_on = (given for given in row.decisions.all() if given.verdict == Verdict.PASS_ON)
    return next(passed_on, None)


def missing_approvals(row: Transaction) -> int:
    """The number of approvals that are still needed."""
    return seats.missing_seats(row)


def is_irreversible(row: Transaction) -> bool:
    return row.consequence_level == ConsequenceLevel.IRREVERSIBLE


def money(row: Transaction) -> str:
    """The amount as people read it, in the active language."""
    if row.amount is None:
        return ""
    return amount_written(row.amount, row.currency)


def undo_in_contract(row: Transaction) -> str:
    """The way to undo it, by the tool's contract; empty if that says nothing."""
    tool = tool_of(row)
    if tool is None:
        return ""
    return tool.contract.compensation_of(row.arguments, money(row)) or tool.contract.undo


def can_compensate(row: Transaction) -> bool:
    tool = tool_of(row)
    has_content = row.state == State.COMMITTED and row.content_erased_at is None
    return has_content and tool is not None and tool.has("compensate")


# The outcomes that an operator can state, with their labels.
OUTCOMES: dict[str, str] = {
    Outcome.COMMITTED: gettext_noop("It happened; the receipt is below"),
    Outcome.NOTHING_HAPPENED: gettext_noop("Nothing happened, and it will not any more"),
    Outcome.RETRY: gettext_noop(
        "Run it again with the same operation key (the tool is retry-safe)"
    ),
    Outcome.KEEP_RECEIPT: gettext_noop(
        "It did happen: keep the late receipt, the transaction is committed"
    ),
    Outcome.NOT_OURS: gettext_noop(
        "The late receipt is another operation's; nothing happened here"
    ),
    Outcome.DEALT_WITH: gettext_noop("It did happen, and was compensated outside of Assent"),
    Outcome.WITHDRAW: gettext_noop("Withdraw it: nobody has begun, and nobody shall"),
    Outcome.LET_GO: gettext_noop("Everything held was released by hand"),
    Outcome.DECLINE: gettext_noop("Decline what was proposed, or take back what you proposed"),
}


@dataclass(frozen=True, slots=True)
class Settling:
    """The outcomes that operators may still state for a transaction."""

    outcomes: list[tuple[str, str]]
    takes_two: bool
    # The outcome that one operator proposed, which waits for a second operator.
    proposed: str = ""
    proposed_by: str = ""
    why: str = ""
    is_own: bool = False


def settling(row: Transaction, viewer: str = "") -> Settling:
    """The open outcomes for this viewer. Who proposed one may only withdraw it."""
    outcomes: list[tuple[str, str]] = [(name, _(OUTCOMES[name])) for name in open_outcomes(row)]
    takes_two = needs_second_operator(row)
    proposal = row.settlement
    if proposal is None:
        return Settling(outcomes, takes_two)
    is_own = proposal["by"] == viewer
    if is_own:
        outcomes = [(Outcome.DECLINE, _("Take back what I proposed"))]
    described = described_settlement(proposal)
    by_name, reason = proposal["by_name"], proposal["reason"]
    return Settling(outcomes, takes_two, described, by_name, reason, is_own)
