"""Who may sign off what. Says no by default, and always says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from babel.numbers import format_currency
from django.contrib.auth.models import User

from a2a.models import Question, QuestionState, Task
from a2a.models.answerers import CLIENT
from approvals.models import Membership, Role
from approvals.people.principals import name_of, names_of
from ledger.contracts import ConsequenceLevel, key_fields, tools
from ledger.models import Transaction, Verdict
from ledger.states import State
from ledger.transactions import settlements

Roles = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class May:
    """A yes, or a no with its reason in words."""

    is_allowed: bool
    why_not: str = ""

    def __bool__(self) -> bool:
        return self.is_allowed


YES = May(True)


def may_decide(row: Transaction, principal: str, roles: Roles, now: datetime) -> May:
    """Whether this person may approve or reject now."""
    if row.state != State.PREPARED:
        return May(False, f"It is {row.get_state_display()}.")
    if row.expires_at <= now:
        return May(False, "Its time is up; it is being let go of.")
    if Role.APPROVER not in roles.get(row.tenant, frozenset()):
        return May(False, f"Only an approver of {row.tenant} may decide. {who_can(row.tenant)}")
    if row.proposed_by == principal:
        return May(False, "You proposed it yourself; somebody else has to decide.")
    if any(vote.principal == principal for vote in row.decisions.all()):
        return May(False, "You have approved it. It waits for another approver.")
    return YES


def only_on_the_desk(row: Transaction) -> bool:
    """Whether no other surface may take the decision. Yes for a tool that nobody knows any more."""
    tool = tools.get(row.tool)
    return tool is None or tool.contract.web_only


def may_operate(row: Transaction, principal: str, roles: Roles) -> May:
    """Whether this person may settle what is in doubt, or compensate."""
    if Role.OPERATOR not in roles.get(row.tenant, frozenset()):
        operators = who_can(row.tenant, Role.OPERATOR)
        return May(False, f"Only an operator of {row.tenant} may do that. {operators}")
    if row.proposed_by == principal:
        return May(False, "You proposed it yourself; somebody else has to do that.")
    return YES


def may_answer(question: Question, principal: str, roles: Roles, now: datetime) -> May:
    """Whether this person may answer now."""
    if question.state != QuestionState.OPEN:
        return May(False, f"It is {question.get_state_display()}.")
    if question.expires_at <= now:
        return May(False, "Its time is up; the task is being canceled.")
    # Being named gives no role: whoever only looks on does not answer.
    acting = roles.get(question.tenant, frozenset()) & {Role.APPROVER, Role.OPERATOR}
    if acting and {principal, *acting} & set(question.may_answer):
        return YES
    return May(False, f"You may not answer it. {who_may_answer(question)}")


def who_may_answer(question: Question) -> str:
    """In a sentence: roles with the people who have them, named people, the agent that asked."""
    said = [
        f"{role}s ({who_can(question.tenant, role).removeprefix('One of: ').rstrip('.')})"
        for role in (Role.APPROVER, Role.OPERATOR)
        if role in question.may_answer
    ]
    said += names_of(one for one in question.may_answer if ":" in one)
    if CLIENT in question.may_answer:
        said.append("the agent that submitted the task")
    return f"It may be answered by {', or '.join(said)}." if said else "Nobody may answer it."


def may_cancel(task: Task, roles: Roles) -> May:
    """Whether this person may stop a task."""
    if task.is_final:
        return May(False, f"It is {task.get_state_display()}.")
    if not roles.get(task.tenant, frozenset()) & {Role.APPROVER, Role.OPERATOR}:
        return May(False, f"Only approvers and operators of {task.tenant} may cancel tasks.")
    if task.transaction_id is not None:
        return May(False, "It stands for a transaction: decide that one.")
    return YES


def who_can(tenant: str, role: Role = Role.APPROVER) -> str:
    """``One of: Alice Moreau, Bob Tanaka.``"""
    people = User.objects.filter(
        memberships__in=Membership.objects.filter(tenant=tenant, role=role), is_active=True
    ).order_by("first_name", "username")[:6]
    names = [name_of(person) for person in people]
    if not names:
        return "Nobody has that role yet; an operator can give it in the admin."
    return f"One of: {', '.join(names)}."


def what_it_takes(row: Transaction) -> str:
    """The policy of the contract, in a sentence."""
    who = {
        "HUMAN": "a person",
        "SUPERVISOR": "a supervising agent or a person",
        "NONE": "nobody: it passes by policy",
    }[row.required_approver]
    if row.quorum > 1:
        who = f"{row.quorum} different people"
    return f"The contract of {row.tool} asks for {who} ({row.risk_level.lower()} risk)."


def still_missing(row: Transaction) -> int:
    """How many more approvals it takes."""
    given = sum(vote.verdict == Verdict.APPROVE for vote in row.decisions.all())
    return max(0, row.quorum - given)


def is_irreversible(row: Transaction) -> bool:
    return row.consequence_level == ConsequenceLevel.IRREVERSIBLE


def confirmation_word(row: Transaction) -> str:
    """What the approver of something irreversible types: the amount, or what it is done to.

    What it is done to is what the operation key names first.
    """
    if row.amount is not None:
        return money(row)
    tool = tools.get(row.tool)
    for name in key_fields(tool.contract.operation_key) if tool else ():
        value = " ".join(str(row.arguments.get(name, "")).split())
        if name != "tenant" and 0 < len(value) <= 60:
            return value
    return row.tool


def money(row: Transaction) -> str:
    if row.amount is None:
        return ""
    return format_currency(row.amount, row.currency, locale="en")


def undo_of(row: Transaction) -> str:
    """How it can be undone, in the words of the contract."""
    tool = tools.get(row.tool)
    if tool is not None and tool.contract.undo:
        return tool.contract.undo
    return {
        ConsequenceLevel.REVERSIBLE: "It can be reversed.",
        ConsequenceLevel.COMPENSABLE: "It cannot be taken back, but it can be made up for.",
        ConsequenceLevel.IRREVERSIBLE: "It cannot be undone.",
    }[ConsequenceLevel(row.consequence_level)]


def can_compensate(row: Transaction) -> bool:
    tool = tools.get(row.tool)
    has_content = row.state == State.COMMITTED and row.content_erased_at is None
    return has_content and tool is not None and tool.has("compensate")


# How a person is asked which outcome it was.
OUTCOMES = {
    "committed": "It happened; the receipt is below",
    "nothing_happened": "Nothing happened, and it will not any more",
    "retry": "Run it again with the same operation key (the tool is retry-safe)",
    "keep_receipt": "It did happen: keep the late receipt, the transaction is committed",
    "not_ours": "The late receipt is another operation's; nothing happened here",
    "dealt_with": "It did happen, and was made good outside of Assent",
    "withdraw": "Withdraw it: nobody has begun, and nobody shall",
    "let_go": "Everything held was let go of by hand",
    "decline": "Decline what was proposed, or take back what you proposed",
}


@dataclass(frozen=True, slots=True)
class Settling:
    """What operators may still say of a row."""

    outcomes: list[tuple[str, str]]
    takes_two: bool
    # What one operator has said, and who; it waits for another.
    proposed: str = ""
    proposed_by: str = ""
    why: str = ""
    is_own: bool = False


def settling(row: Transaction, viewer: str = "") -> Settling:
    """Who proposed something may only take it back: the other word is another operator's."""
    outcomes = [(name, OUTCOMES[name]) for name in settlements.open_outcomes(row)]
    takes_two = settlements.needs_a_second(row)
    before = row.settlement
    if before is None:
        return Settling(outcomes, takes_two)
    is_own = before["by"] == viewer
    if is_own:
        outcomes = [("decline", "Take back what I proposed")]
    described = settlements.described(before)
    return Settling(outcomes, takes_two, described, before["by_name"], before["reason"], is_own)
