"""Putting a brake, and lifting it. Sealed as events of the brake's own chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals
from ledger.contracts.results import clean
from ledger.errors import InvalidRequest, NotAllowed, NotFound, NotPossible, Sentence
from ledger.events.account_changes import record_change
from ledger.events.change_kinds import ChangeKind
from ledger.foundation.characters import cleaned
from ledger.foundation.postgres import is_locked
from ledger.models import Brake, BrakeQuerySet
from ledger.principals import Principal, Surface

WHY_MAX = 500
LONGEST = timedelta(days=366)
# As in ledger/sql/brakes.sql.
LOCK = int.from_bytes(b"brakes")
WAIT = "1s"


@dataclass(frozen=True, slots=True)
class Scope:
    """Part of an installation that is stopped. Empty stands for all: without a tenant, everything.

    ``agent`` is the text form of its principal.
    """

    tenant: str = ""
    agent: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Put:
    """A brake that stands. ``is_waited_for``: nothing that was about to begin can begin any more.

    Else a worker that was claiming has not answered in time; what it claims may still begin.
    """

    brake: Brake
    is_waited_for: bool


def put(
    scope: Scope,
    why: str,
    *,
    by: Principal,
    via: Surface,
    lasts: timedelta | None = None,
    keeps: bool = False,
) -> Put:
    """Stop everything in the scope, for so long, or until somebody lifts the brake.

    One that ``keeps`` lets agents go on proposing what holds nothing: it waits for its end.

    Commits, and waits a second at most for those that were about to begin: when it returns,
    nothing in the scope begins any more. Raises ``InvalidRequest``, and ``NotAllowed`` for agents.
    """
    _check_is_person(by, via)
    _check(scope, why, lasts)
    with atomic():
        brake = Brake.objects.create(
            tenant=scope.tenant,
            agent=scope.agent,
            tool=scope.tool,
            why=why.strip(),
            by=str(by),
            by_name=by.display_name[:200],
            until=None if lasts is None else Now() + lasts,
            keeps=keeps,
        )
        _record_put(brake, by, via)
    # Within a database transaction of the caller nobody sees the brake yet.
    return Put(brake, not connection.in_atomic_block and _nobody_claims())


def lift(brake_id: int, *, by: Principal, via: Surface) -> Brake:
    """Let everything in its scope go on. Lifting again returns the brake.

    Raises ``NotFound``, ``NotPossible`` if it has lapsed, and ``NotAllowed`` for agents.
    """
    _check_is_person(by, via)
    with atomic():
        is_lifted = _end(Brake.objects.filter(pk=brake_id, is_hold=False), by, via)
        brake = Brake.objects.filter(pk=brake_id).first()
        if brake is None:
            raise NotFound(Sentence("There is no such brake."))
        if brake.is_hold:
            raise NotPossible(
                Sentence("Look at what has changed, on the page of the tool: accepting it ends it.")
            )
        if not is_lifted and brake.lifted_at is None:
            raise NotPossible(Sentence("Its time was over already."))
    return brake


def hold(tenant: str, tool: str, why: str, *, by: Principal, via: Surface, **details: str) -> bool:
    """Stop a tool until somebody has looked at it; ``False``, and nothing written, if it is held.

    Nobody waits for those that were about to begin. ``details`` are sealed besides.
    """
    kept = {"why": cleaned(clean(why, WHY_MAX)), "by": str(by), "by_name": by.display_name[:200]}
    with atomic():
        brake, is_new = Brake.objects.get_or_create(
            tenant=tenant, tool=tool, is_hold=True, lifted_at=None, defaults=kept
        )
        if is_new:
            _record_put(brake, by, via, details)
    return is_new


def end_hold(tenant: str, tool: str, *, by: Principal, via: Surface) -> bool:
    """Let a tool go on that ``by`` has looked at; ``False`` if it was not held."""
    with atomic():
        return _end(Brake.objects.holds_of(tenant, tool), by, via)


def _end(brakes: BrakeQuerySet, by: Principal, via: Surface) -> bool:
    brake = brakes.standing().select_for_update().first()
    if brake is None:
        return False
    Brake.objects.filter(pk=brake.pk).update(
        lifted_at=Now(), lifted_by=str(by), lifted_by_name=by.display_name[:200]
    )
    brake.refresh_from_db()
    details = {"at": seals.as_text(brake.lifted_at)}
    _record(brake, ChangeKind.BRAKE_LIFTED, by, via, details)
    return True


def _check_is_person(by: Principal, via: Surface) -> None:
    is_command = by.is_system and via == Surface.COMMAND
    if not (by.is_user or is_command):
        raise NotAllowed(Sentence("Only people stop agents, and let them go on."))


def check_why(why: str) -> None:
    """Raises ``InvalidRequest``, and ``UnsafeText``."""
    if not why.strip():
        raise InvalidRequest(Sentence("Say why it is stopped: everybody who is stopped reads it."))
    if len(why) > WHY_MAX:
        raise InvalidRequest(Sentence("At most {most} characters say why.", most=WHY_MAX))
    seals.refuse_unsafe_text(why, "why")


def _check(scope: Scope, why: str, lasts: timedelta | None) -> None:
    check_why(why)
    agent = Principal.parse(scope.agent)
    if scope.agent and (not scope.tenant or agent.tenant != scope.tenant):
        raise InvalidRequest(Sentence("An agent is stopped in its own tenant."))
    if lasts is not None and not timedelta() < lasts <= LONGEST:
        raise InvalidRequest(Sentence("A brake ends within a year, or when it is lifted."))


def _record_put(
    brake: Brake, by: Principal, via: Surface, details: Mapping[str, str] | None = None
) -> None:
    brake.refresh_from_db()
    parts = {
        "agent": brake.agent,
        "tool": brake.tool,
        "until": seals.as_text(brake.until),
        "keeps": brake.keeps,
        "is_hold": brake.is_hold,
    }
    told = {name: value for name, value in parts.items() if value}
    sealed = {"at": seals.as_text(brake.at), **told, **(details or {})}
    _record(brake, ChangeKind.BRAKE_PUT, by, via, sealed, brake.why)


def _record(
    brake: Brake,
    kind: ChangeKind,
    by: Principal,
    via: Surface,
    details: Mapping[str, Any],
    reason: str = "",
) -> None:
    subject = f"brake:{brake.pk}"
    record_change(
        subject,
        kind,
        tenant=brake.tenant,
        by=by,
        via=via,
        name=str(brake),
        details=details,
        reason=reason,
    )


def _nobody_claims() -> bool:
    """Wait until all have committed that asked before the brake was; ``False`` if one has not."""
    try:
        with atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{WAIT}'")
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    except OperationalError as failure:
        if not is_locked(failure):
            raise
        return False
    return True
