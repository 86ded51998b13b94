"""Asking for a change, confirming it and declining it.

A request is never edited: whoever wants something else asks anew, which replaces it. Confirming is
a compare-and-set on what the second operator saw, in one database transaction with the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals
from ledger.errors import NotAllowed, NotFound, NotPossible, Sentence
from ledger.events.four_eyes import kinds
from ledger.models import ChangeRequest, RequestState, Tenant
from ledger.principals import Principal, Surface

VALID = timedelta(days=3)
NO_SUCH_CHANGE = Sentence("No such change waits: it was settled, replaced, or its time was up.")
NOTHING_CHANGED = Sentence("Nothing was changed.")


def waiting(*names: str) -> QuerySet[ChangeRequest]:
    """The requests of these kinds that are neither settled nor expired."""
    rows = ChangeRequest.objects.filter(kind__in=names)
    return rows.filter(state=RequestState.WAITING, expires_at__gt=Now())


def waiting_for(kind: str, tenant: str, subject: str) -> ChangeRequest | None:
    """The change of this subject that waits."""
    return waiting(kind).filter(tenant=tenant, subject=subject).first()


def ask(
    kind: str,
    subject: str,
    after: Mapping[str, Any],
    *,
    tenant: str,
    by: Principal,
    via: Surface,
    in_place_of: str = "",
    loosens: Iterable[str] = (),
    concerns: str = "",
) -> ChangeRequest:
    """Have a change wait. It replaces another one of the subject; an equal one is returned.

    The caller holds the lock of the tenant, or another under which nobody else asks for a change
    of the subject.
    """
    of_subject = {"tenant": tenant, "kind": kind, "subject": subject}
    sha256 = _digest_of({**of_subject, "concerns": concerns, "in_place_of": in_place_of}, after)
    if same := waiting(kind).filter(**of_subject, sha256=sha256).first():
        return same
    with atomic():
        overtake(kind, tenant, subject)
        request = ChangeRequest.objects.create(
            **of_subject,
            concerns=concerns,
            in_place_of=in_place_of,
            after=dict(after),
            sha256=sha256,
            loosens=list(loosens),
            asked_by=str(by),
            asked_by_name=by.display_name,
            expires_at=Now() + VALID,
        )
        told = {"in_place_of": in_place_of, "loosens": request.loosens} if request.loosens else {}
        kinds.KINDS[kind].record(request, kinds.KINDS[kind].asked, by, via, **told)
    return request


def note_alone(
    kind: str,
    subject: str,
    after: Mapping[str, Any],
    *,
    tenant: str,
    by: Principal,
    concerns: str,
) -> ChangeRequest:
    """Note a change that the only operator of the tenant made alone, for the next one to read."""
    of_subject = {"tenant": tenant, "kind": kind, "subject": subject}
    return ChangeRequest.objects.create(
        **of_subject,
        concerns=concerns,
        after=dict(after),
        sha256=_digest_of({**of_subject, "concerns": concerns, "in_place_of": ""}, after),
        state=RequestState.ALONE,
        asked_by=str(by),
        asked_by_name=by.display_name,
        expires_at=Now() + VALID,
    )


def read(request: ChangeRequest, *, by: Principal, via: Surface) -> None:
    """Another operator has read what was made alone. Raises ``NotAllowed, NotFound``.

    One who could be the same person has not.
    """
    if str(by) in {request.asked_by, request.concerns}:
        raise NotAllowed(Sentence("You made it, or it is about you: another operator reads it."))
    for check in kinds.CHECKS:
        check(request, by)
    with atomic():
        who = {"ended_by": str(by), "ended_by_name": by.display_name, "ended_at": Now()}
        rows = ChangeRequest.objects.filter(pk=request.pk, state=RequestState.ALONE)
        if not rows.update(state=RequestState.READ, **who):
            raise NotFound(NO_SUCH_CHANGE)
        kind = kinds.KINDS[request.kind]
        kind.record(request, kind.read, by, via, **request.asker)


def overtake(kind: str, tenant: str, subject: str) -> None:
    """End what waits for a change of the subject, as a later one counts."""
    rows = ChangeRequest.objects.filter(kind=kind, tenant=tenant, subject=subject)
    rows.filter(state=RequestState.WAITING).update(state=RequestState.OVERTAKEN)


def refusal(request: ChangeRequest, by: Principal) -> str:
    """Why this operator may not confirm it; empty if they may."""
    if str(by) == request.asked_by:
        return Sentence("You asked for it: another operator has to confirm it.")
    if str(by) == request.concerns:
        return Sentence("It is about yourself: another operator has to confirm it.")
    return kinds.KINDS[request.kind].refusal(request, by)


def statement(request: ChangeRequest, nonce: str = "") -> Mapping[str, Any] | None:
    """The statement that whoever confirms it signs with a passkey; ``None`` if it is not signed."""
    return kinds.KINDS[request.kind].signed(request, nonce)


def confirm(
    request: ChangeRequest, *, seen: str, by: Principal, via: Surface, **signature: Any
) -> None:
    """Make the change, if ``seen`` is the hash of what it is.

    What has to be signed takes an ``assertion`` as well.

    Raises ``NotFound, NotAllowed, NotPossible``, and what its kind raises; nothing was changed
    then.
    """
    if seen != request.sha256 or seen != _digest_of(vars(request), request.after):
        raise NotFound(NO_SUCH_CHANGE)
    if reason := refusal(request, by):
        raise NotAllowed(reason, hint=NOTHING_CHANGED)
    for check in kinds.CHECKS:
        check(request, by)
    with atomic():
        _end(request, RequestState.CONFIRMED, by)
        kinds.KINDS[request.kind].apply(request, by, via, **signature)


def decline(request: ChangeRequest, *, by: Principal, via: Surface) -> None:
    """Decline it, or take back one's own. Raises ``NotFound, NotPossible``."""
    with atomic():
        _end(request, RequestState.DECLINED, by)
        kind = kinds.KINDS[request.kind]
        kind.record(request, kind.declined, by, via)


def _end(request: ChangeRequest, state: RequestState, by: Principal) -> None:
    # First, as who asks for another change of the subject holds it before the request.
    Tenant.objects.select_for_update(no_key=True).filter(pk=request.tenant).first()
    who = {"ended_by": str(by), "ended_by_name": by.display_name, "ended_at": Now()}
    rows = waiting(request.kind).filter(pk=request.pk, sha256=request.sha256)
    if rows.update(state=state, **who):
        return
    if ChangeRequest.objects.filter(pk=request.pk, ended_by=str(by)).exists():
        raise NotPossible(Sentence("You have settled it already."), hint=NOTHING_CHANGED)
    raise NotFound(NO_SUCH_CHANGE)


def _digest_of(facts: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    names = ("tenant", "kind", "subject", "concerns", "in_place_of")
    return seals.digest_of({**{name: facts[name] for name in names}, "after": after})
