"""Every decision of a person, from whichever surface, goes through these functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.utils import timezone
from django.utils.translation import gettext as _

from a2a import tasks
from a2a.errors import Reason
from a2a.models import Question, QuestionState, Task
from a2a.tasks import questions
from approvals.desk import policies, seats, strength
from approvals.http.middleware import Roles, roles_of, tenants_of
from approvals.models import Role
from approvals.people import principal_of, require_another_person
from approvals.presentation import full_display
from approvals.presentation.full_display import DESK
from ledger.errors import InvalidRequest, NotAllowed, NotFound
from ledger.models import Grant, Review, ReviewVerdict, Transaction
from ledger.principals import Surface
from ledger.sign_off import grants
from ledger.states import Outcome, State
from ledger.transactions import coordinator, keepers_of, needs_second_operator


def approve(
    user: User,
    transaction_id: UUID,
    *,
    digest: str,
    via: Surface,
    typed: str = "",
    reason: str = "",
    shown: str = "",
    opened: bool = False,
    together: int = 1,
    credential: str = "",
    nonce: str = "",
) -> Transaction:
    """Approve the transaction as it was shown, in full, with others if it is ``together``.

    ``typed`` is the amount or the name, which an irreversible transaction needs, one for which
    rules ask for it, and one after several fast approvals. ``reason`` is the note, where rules
    ask for one. ``shown`` is the page's proof that it showed all of it, and when;
    ``opened`` says that the person read the PDFs, which no page shows. ``credential`` is what the
    browser signed with a passkey, which stands for typing as well, and ``nonce`` what for.

    Raises ``NotFound, NotAllowed, NotShownInFull, InvalidRequest`` and what
    ``coordinator.approve`` raises.
    """
    row, roles = row_and_roles(user, transaction_id)
    require_role(Role.APPROVER, row, roles)
    check_surface(row, via)
    full_display.check(row, via=via, user=user, proof=shown, has_opened=opened)
    types = not credential and has_to_type(user, row, via)
    if types and not strength.is_confirmed(typed, row):
        raise InvalidRequest(why_to_type(row), hint=_("Nothing was decided."))
    seconds_shown = full_display.seconds_shown(row, user, shown) if via == DESK else None
    if seconds_shown is not None:
        seconds_shown /= together
    with _by_another_person(row, user), atomic():
        # Until the vote is committed nobody else uses the key: its counter goes on in their order.
        assertion = strength.signed(user, row, credential, nonce)
        approved = coordinator.approve(
            transaction_id,
            digest=digest,
            by=principal_of(user),
            via=via,
            reason=reason,
            typed=types,
            assertion=assertion,
            together=together,
            seconds_shown=seconds_shown,
            undo_seconds=strength.undo_seconds(row.tenant) if via == DESK else 0,
        )
        strength.note_pace(user, seconds_shown, was_typed=types or bool(credential))
    return approved


def sign(user: User, transaction_id: UUID, *, shown: str, opened: bool = False) -> dict[str, Any]:
    """Options for the browser to sign an approval with a key of this person, and the nonce.

    ``{"publicKey": {…}, "nonce": "…"}``. Raises ``NotFound, NotAllowed, NotShownInFull``.
    """
    row, roles = row_and_roles(user, transaction_id)
    may = policies.may_decide(row, str(principal_of(user)), roles, timezone.now())
    if not may:
        raise NotAllowed(may.why_not)
    full_display.check(row, via=DESK, user=user, proof=shown, has_opened=opened)
    return strength.begin(user, row)


def sign_word(
    user: User, transaction_id: UUID, *, outcome: Outcome, receipt: str = ""
) -> dict[str, Any]:
    """The same for an operator's word on the outcome. Raises ``NotFound, NotAllowed``."""
    row, roles = row_and_roles(user, transaction_id)
    require_role(Role.OPERATOR, row, roles)
    return strength.begin(user, row, outcome, row.late_receipt or receipt.strip())


def has_to_type(user: User, row: Transaction, via: Surface) -> bool:
    """True if this person types the amount, or the name, to approve it."""
    is_fast = via == DESK and row.state == State.PREPARED and strength.must_type(user, row)
    return is_fast or policies.asks_to_type(row)


def why_to_type(row: Transaction) -> str:
    word = strength.confirmation_word(row)
    if policies.is_irreversible(row):
        return _("It cannot be undone: type “{word}” to confirm.").format(word=word)
    if policies.asks_to_type(row):
        return _("The rules ask for it: type “{word}” to confirm.").format(word=word)
    return _("You are approving fast: type “{word}” to approve this one.").format(word=word)


def reject(
    user: User, transaction_id: UUID, *, digest: str, via: Surface, reason: str
) -> Transaction:
    """Reject the transaction. The agent reads the reason.

    The desk does not have to show it in full for this, because a rejection changes nothing outside.
    """
    row, roles = row_and_roles(user, transaction_id)
    require_role(Role.APPROVER, row, roles)
    check_surface(row, via)
    if via != DESK:
        full_display.check(row, via=via, user=user, has_opened=True)
    return coordinator.reject(
        transaction_id, digest=digest, by=principal_of(user), via=via, reason=reason
    )


def send_back(
    user: User, transaction_id: UUID, *, digest: str, via: Surface, reason: str
) -> Transaction:
    """Reject it, and ask its agent to propose it anew, as the reason says."""
    row, roles = row_and_roles(user, transaction_id)
    require_role(Role.APPROVER, row, roles)
    check_surface(row, via)
    return coordinator.send_back(
        transaction_id, digest=digest, by=principal_of(user), via=via, reason=reason
    )


def undo(user: User, transaction_id: UUID, *, via: Surface) -> Transaction:
    """Withdraw one's own approval, within the seconds that the desk offers it, and what was allowed
    with it.

    Raises ``NotFound, NotAllowed`` and what ``coordinator.withdraw_approval`` raises.
    """
    row, _roles = row_and_roles(user, transaction_id)
    by = principal_of(user)
    with atomic():
        withdrawn = coordinator.withdraw_approval(row.pk, by=by, via=via)
        for grant in Grant.objects.live().filter(transaction=row, given_by=str(by)):
            grants.end(grant.pk, by=by, via=via)
    return withdrawn


def resolve(
    user: User,
    transaction_id: UUID,
    *,
    outcome: Outcome,
    via: Surface,
    reason: str,
    receipt: str = "",
    credential: str = "",
    nonce: str = "",
) -> Transaction:
    """Record an operator's statement of the outcome of a transaction in doubt.

    ``credential`` is what the browser signed with a passkey, and ``nonce`` what for.
    """
    row, roles = row_and_roles(user, transaction_id)
    require_role(Role.OPERATOR, row, roles)
    statement: dict[str, Any] = {"by": principal_of(user), "via": via, "reason": reason}
    if outcome == Outcome.DECLINE:
        return coordinator.resolve(transaction_id, outcome=outcome, **statement)
    # Together, so that the use of the key is noted only if the word counts.
    with _by_another_person(row, user), atomic():
        assertion = strength.signed_word(user, row, outcome, credential, nonce)
        return coordinator.resolve(
            transaction_id, outcome=outcome, receipt=receipt, assertion=assertion, **statement
        )


def compensate(
    user: User,
    transaction_id: UUID,
    *,
    via: Surface,
    reason: str,
    credential: str = "",
    nonce: str = "",
) -> Transaction:
    """Start the tool's compensation of a committed transaction; signed as ``resolve`` is."""
    row, roles = row_and_roles(user, transaction_id)
    require_role(Role.OPERATOR, row, roles)
    by = principal_of(user)
    with _by_another_person(row, user), atomic():
        assertion = strength.signed_word(user, row, Outcome.COMPENSATE, credential, nonce)
        return coordinator.compensate(
            transaction_id, by=by, via=via, reason=reason, assertion=assertion
        )


def review(
    user: User, review_id: int, *, verdict: ReviewVerdict, via: Surface, reason: str
) -> Review:
    """Record what a person thinks of a supervisor's decision.

    Raises ``NotFound, NotAllowed`` and what ``coordinator.review`` raises.
    """
    rows = Review.objects.filter(tenant__in=tenants_of(user))
    row = rows.select_related("decision__transaction").filter(pk=review_id).first()
    if row is None:
        raise NotFound(_("There is no such review."))
    by = principal_of(user)
    may = policies.may_review(row, str(by), roles_of(user))
    if not may and not row.verdict:
        raise NotAllowed(may.why_not)
    if not row.verdict:
        tx = row.decision.transaction
        keepers = [row.decision.kept_by, *keepers_of(tx.proposed_by, tx.created_at)]
        deed = _("{name} has kept one of its agents.")
        require_another_person(user, filter(None, keepers), deed)
    return coordinator.review(review_id, verdict, by=by, via=via, reason=reason)


def answer(user: User, question_id: UUID, value: Any, *, via: Surface) -> Question:
    """Record a person's answer to an agent's question.

    Raises ``NotFound, NotAllowed`` and what ``questions.answer`` raises.
    """
    visible = Question.objects.for_tenants(tenants_of(user))
    question = visible.select_related("task").filter(pk=question_id).first()
    if question is None:
        raise NotFound(_("There is no such question."))
    check_may_answer(user, question)
    if question.state == QuestionState.OPEN:
        full_display.check_question(question, via=via)
    return questions.answer(question_id, value, by=principal_of(user), via=via)


def check_may_answer(user: User, question: Question) -> None:
    """Raises ``NotAllowed``. A closed or expired question is left to ``questions.answer``."""
    may = policies.may_answer(question, str(principal_of(user)), roles_of(user), timezone.now())
    if not may and question.state == QuestionState.OPEN and question.expires_at > timezone.now():
        raise NotAllowed(may.why_not)


def cancel_task(user: User, task_id: UUID, *, via: Surface, reason: str) -> Task:
    """Cancel a task. The agent reads the reason."""
    task = Task.objects.for_tenants(tenants_of(user)).filter(pk=task_id).first()
    if task is None:
        raise NotFound(_("There is no such task."))
    may = policies.may_cancel(task, roles_of(user))
    if not may and not task.is_final:
        raise NotAllowed(may.why_not)
    return tasks.cancel(
        task_id, by=principal_of(user), via=via, reason=reason, code=Reason.CANCELED_BY_PERSON
    )


def row_and_roles(user: User, transaction_id: UUID) -> tuple[Transaction, Roles]:
    """Raises ``NotFound`` also for a transaction of a tenant that the person does not belong to."""
    row = Transaction.objects.for_tenants(tenants_of(user)).filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    return row, roles_of(user)


def require_role(role: Role, row: Transaction, roles: Roles) -> None:
    """Raises ``NotAllowed``."""
    if role not in roles.get(row.tenant, frozenset()):
        raise NotAllowed(
            _("Only an operator of {tenant} may do that. {who}").format(
                tenant=row.tenant, who=policies.who_can(row.tenant, role)
            )
            if role is Role.OPERATOR
            else _("Only a manager of {tenant} may decide. {who}").format(
                tenant=row.tenant, who=policies.who_can(row.tenant, role)
            )
        )


@contextmanager
def _by_another_person(row: Transaction, user: User) -> Iterator[None]:
    """Refuse a second account of the same person where two people are needed.

    The check and the decision run under the lock of the row, so concurrent requests see each
    other. Raises ``NotAllowed``.
    """
    keepers = policies.barred_keepers_of(row)
    require_another_person(user, keepers, _("{name} keeps the agent that proposed it."))
    if row.quorum < 2 and not needs_second_operator(row):
        yield
        return
    with atomic():
        row = Transaction.objects.select_for_update().get(pk=row.pk)
        approvals = seats.counted_approvals(row)
        earlier = [given.kept_by or given.principal for given in approvals]
        if row.state == State.PREPARED:
            require_another_person(user, earlier, _("{name} has approved it."))
            require_another_person(user, seats.makers_of(row), _("{name} has changed it."))
        elif row.settlement is not None:
            require_another_person(user, [row.settlement["by"]], _("{name} has proposed it."))
        yield


def check_surface(row: Transaction, via: Surface) -> None:
    """Raises ``NotAllowed`` where the contract, or a rule, wants the desk."""
    if via != DESK and policies.only_on_the_desk(row):
        raise NotAllowed(
            _("The contract of this tool, or a rule, allows a sign-off on the desk only."),
            hint=_("Open it on the desk. Nothing was decided."),
        )
