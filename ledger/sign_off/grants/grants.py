"""Grants: signatures that people give in advance, for what an agent proposes that is as described.

A grant fills the seats that its signers could fill by hand, as strongly as they signed, and what it
does not fill is asked for. It signs nothing that is denied or stopped, critical or irreversible,
that has evidence, or a warning that its signer was not shown. Giving one takes the person whose
signature it is, ending one anybody who decides or operates; break-glass takes two operators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic
from pydantic import ValidationError

from ledger import seals
from ledger.contracts import ConsequenceLevel, RiskLevel
from ledger.errors import InvalidRequest, NotAllowed, NotFound, NotPossible, Sentence
from ledger.events import ChangeKind, four_eyes, record_change
from ledger.models import ChangeRequest, Grant, Tenant, Transaction, TransactionRow
from ledger.principals import Principal, Surface, system
from ledger.sign_off.grants import budgets
from ledger.sign_off.rules import TIMES, Budget, Facts, Rule, agent_in, charges_for, sentences

KIND = "grant"
MOST_LIVE = 50  # of one agent at once
LONGEST = timedelta(days=30)
LONGEST_BREAK_GLASS = timedelta(hours=8)
WHY_MAX = 500
EXPIRED = system("grants", "Its time was over")
GONE = system("grants", "Who gave it may not decide any more")

# Each raises ``NotAllowed`` where this principal may not sign off this transaction by now.
Check = Callable[[Grant, str, Transaction | TransactionRow], None]
CHECKS: list[Check] = []


def register_check(check: Check) -> None:
    """Called in ``AppConfig.ready()``."""
    CHECKS.append(check)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A grant before it is given. ``when`` has conditions, as a rule's, without tool and agent."""

    tenant: str
    agent: str
    tool: str
    when: Mapping[str, Any]
    budgets: Collection[Mapping[str, Any]]
    lasts: timedelta
    warnings: Collection[str] = ()
    names: Collection[str] | None = None  # of arguments; others are not covered; ``None``: any
    tool_version: str = ""
    typed: bool = False
    why: str = ""
    transaction_id: UUID | None = None

    def columns(self) -> dict[str, Any]:
        """Raises ``InvalidRequest`` for what would not mean what it says."""
        rule = rule_of(self)
        return {
            "tenant": self.tenant,
            "agent": self.agent,
            "tool": self.tool,
            "when": rule.as_json()["when"],
            "budgets": [each.model_dump(mode="json") for each in rule.then.budgets],
            "warnings": sorted(map(seals.digest_of_text, self.warnings)),
            "names": None if self.names is None else sorted(self.names),
            "tool_version": self.tool_version,
            "typed": self.typed,
            "why": self.why.strip(),
            "transaction_id": self.transaction_id,
        }


def rule_of(grant: Grant | Wanted) -> Rule:
    """The same as a rule that lets pass. Raises ``InvalidRequest``."""
    named = {"agent": agent_in(grant.agent), **({"tool": grant.tool} if grant.tool else {})}
    try:
        rule = Rule.model_validate(
            {
                "when": {**grant.when, **named},
                "then": {"verdict": "pass", "budgets": list(grant.budgets)},
            }
        )
        rule.tests()
    except ValidationError as refusal:
        raise InvalidRequest(f"{refusal.errors()[0]['msg']}.") from refusal
    except ValueError as refusal:
        raise InvalidRequest(f"{refusal}.") from refusal
    return rule


# --- giving and ending ----------------------------------------------------------------------------


def give(
    wanted: Wanted,
    *,
    by: Principal,
    via: Surface,
    until: datetime | None = None,
    sealed: Mapping[str, Any] = MappingProxyType({}),
) -> Grant:
    """One person signs in advance. Raises ``InvalidRequest``, and ``NotAllowed`` for agents.

    ``until`` is the time at which it ends exactly, ``sealed`` are further members of its event.
    """
    _check_given(wanted, by, LONGEST)
    if not wanted.tool:
        raise InvalidRequest(Sentence("Name the tool."))
    with atomic():
        ends = {} if until is None else {"ends_at": until}
        return _give(wanted.columns(), wanted.lasts, ends, by, via, **sealed)


def ask_break_glass(wanted: Wanted, *, by: Principal, via: Surface) -> ChangeRequest:
    """Have a second operator sign it as well. It counts from then on.

    Raises ``InvalidRequest, NotAllowed``.
    """
    _check_given(wanted, by, LONGEST_BREAK_GLASS)
    if not wanted.why.strip():
        raise InvalidRequest(Sentence("Say why: everybody who decides reads it."))
    after = {**wanted.columns(), "seconds": wanted.lasts.total_seconds()}
    subject = f"{wanted.agent} {wanted.tool}"
    with atomic():
        lock_tenant(wanted.tenant)
        return four_eyes.ask(
            KIND, subject, after, tenant=wanted.tenant, loosens=["break_glass"], by=by, via=via
        )


def end(grant_id: int, *, by: Principal, via: Surface, **details: Any) -> Grant:
    """Nothing is signed by it any more. Waits for who uses it just now; ending again returns it.

    Whoever asks for it has checked that the person may. Raises ``NotFound, NotAllowed``.
    """
    if by.is_agent:
        raise NotAllowed(Sentence("Only people give grants, and end them."))
    with atomic():
        grant = Grant.objects.select_for_update().filter(pk=grant_id).first()
        if grant is None:
            raise NotFound(Sentence("There is no such grant."))
        if grant.ended_at is None:
            _end(grant, by, via, details)
    return grant


def end_all_of(principal: str, **which: Any) -> None:
    """A person who leaves, or loses a role, takes their signatures along: those of these columns"""
    own = Q(given_by=principal) | Q(confirmed_by=principal)
    for grant_id in Grant.objects.live().filter(own, **which).values_list("pk", flat=True):
        end(grant_id, by=GONE, via=Surface.SYSTEM, left=principal)


def end_expired() -> None:
    """End those whose time is over, with an event; nothing was signed by them since."""
    expired = Grant.objects.filter(ended_at=None, ends_at__lte=Now()).values_list("pk", flat=True)
    for grant_id in expired[:100]:
        end(grant_id, by=EXPIRED, via=Surface.SYSTEM, expired=True)


def _end(grant: Grant, by: Principal, via: Surface, details: Mapping[str, Any]) -> None:
    Grant.objects.filter(pk=grant.pk).update(
        ended_at=Now(), ended_by=str(by), ended_by_name=by.display_name[:200]
    )
    grant.refresh_from_db()
    _record_event(
        grant, ChangeKind.GRANT_ENDED, by, via, at=seals.as_text(grant.ended_at), **details
    )


def _check_given(wanted: Wanted, by: Principal, longest: timedelta) -> None:
    if not by.is_user:
        raise NotAllowed(Sentence("Only people give grants, and end them."))
    if not timedelta() < wanted.lasts <= longest:
        raise InvalidRequest(
            Sentence("It ends in at most {hours} hours.", hours=longest // timedelta(hours=1))
        )
    if len(wanted.why) > WHY_MAX:
        raise InvalidRequest(Sentence("At most {most} characters say why.", most=WHY_MAX))
    seals.refuse_unsafe_text([wanted.why, dict(wanted.when)], "the grant")
    limits = rule_of(wanted).then.budgets
    if TIMES not in {each.measure for each in limits}:
        raise InvalidRequest(Sentence("Say how many times."))
    has_sum = len({each.measure for each in limits}) > 1
    if longest == LONGEST and ("amount" in wanted.when) != has_sum:
        raise InvalidRequest(Sentence("Say how much at most each time, and in all."))


def _give(
    columns: Mapping[str, Any],
    lasts: timedelta,
    second: Mapping[str, Any],
    by: Principal,
    via: Surface,
    **told: Any,
) -> Grant:
    lock_tenant(columns["tenant"])
    live = Grant.objects.live().filter(tenant=columns["tenant"], agent=columns["agent"])
    of_item = live.filter(given_by=str(by), transaction=columns["transaction_id"])
    if columns["transaction_id"] and (same := of_item.first()):
        if any(getattr(same, name) != value for name, value in columns.items()):
            raise NotPossible(Sentence("You have signed what is like it: end that grant first."))
        return same
    if live.count() >= MOST_LIVE:
        raise NotPossible(
            Sentence("This agent has {most} grants: end some of them first.", most=MOST_LIVE)
        )
    grant = Grant.objects.create(
        **{
            "given_by": str(by),
            "given_by_name": by.display_name[:200],
            **columns,
            "ends_at": Now() + lasts,
            **second,
        }
    )
    grant.refresh_from_db()
    sealed = {**sealed_parts(grant), **told}
    _record_event(grant, ChangeKind.GRANT_GIVEN, by, via, reason=grant.why, **sealed)
    return grant


def sealed_parts(grant: Grant) -> dict[str, Any]:
    """The members of the event by which it was given."""
    parts = {name: getattr(grant, name) for name in SEALED}
    transaction = {"transaction": str(grant.transaction_id)} if grant.transaction_id else {}
    return {
        **{name: value for name, value in parts.items() if value or value == []},
        **transaction,
        "ends_at": seals.as_text(grant.ends_at),
    }


SEALED = (
    "agent",
    "tool",
    "when",
    "budgets",
    "warnings",
    "names",
    "tool_version",
    "typed",
    "is_break_glass",
    "given_by",
    "confirmed_by",
)


def _record_event(
    grant: Grant, kind: ChangeKind, by: Principal, via: Surface, reason: str = "", **details: Any
) -> None:
    record_change(
        f"grant:{grant.pk}",
        kind,
        tenant=grant.tenant,
        by=by,
        via=via,
        name=str(grant),
        details=details,
        reason=reason,
    )


# --- matching -------------------------------------------------------------------------------------


def may_be_granted(risk: str, consequence: str) -> bool:
    """False for what nobody signs without having seen it."""
    return risk != RiskLevel.CRITICAL and consequence != ConsequenceLevel.IRREVERSIBLE


def names_given(arguments: Mapping[str, Any]) -> set[str]:
    """The names of the arguments that say something."""
    return {name for name, value in arguments.items() if value not in (None, "", [], {})}


def covers(grant: Grant | Wanted, facts: Facts, warnings: Collection[str]) -> bool:
    """True if these facts are known, and as the grant describes them."""
    if not may_be_granted(facts.risk, facts.consequence):
        return False
    if grant.tool and grant.tool_version != facts.tool_version:
        return False
    if grant.names is not None and not names_given(facts.arguments) <= {*grant.names}:
        return False
    shown = grant.warnings
    if isinstance(grant, Wanted):
        shown = [*map(seals.digest_of_text, shown)]
    if {*map(seals.digest_of_text, warnings)} - {*shown}:
        return False
    rule = rule_of(grant)
    if facts.amount is not None and not (
        "amount" in rule.when or getattr(grant, "is_break_glass", False)
    ):
        return False
    is_counted = all(each.amount_of(facts) is not None for each in rule.then.budgets)
    return is_counted and all(test(facts) is True for test in rule.tests())


def covering(tenant: str, agent: str, facts: Facts, warnings: Collection[str]) -> list[Grant]:
    """The live grants that cover a proposal, the oldest first."""
    live = Grant.objects.live().about(tenant, agent, facts.tool).order_by("pk")
    return [grant for grant in live if covers(grant, facts, warnings)]


def locked(grant_id: int) -> Grant | None:
    """The grant while it is live; nobody ends it before the caller's database transaction ends."""
    return Grant.objects.live().select_for_update(no_key=True).filter(pk=grant_id).first()


def budgets_of(grant: Grant) -> list[Budget]:
    return list(rule_of(grant).then.budgets)


def has_room(grant: Grant, facts: Facts) -> bool:
    """True if its budgets have room for this proposal now."""
    zone, now = budgets.clock_of(grant.tenant)
    charges = charges_for(owner_of(grant), budgets_of(grant), facts, now, zone)
    return charges is not None and budgets.have_room(grant.tenant, charges)


def owner_of(grant: Grant) -> str:
    return f"{KIND}:{grant.pk}"


def sentence_of(grant: Grant | Wanted) -> Sentence:
    """``refund, by helpdesk and of at most 50 EUR: up to 500 EUR in all and 10 times in all``."""
    rule = rule_of(grant)
    limits = sentences.limits_of(rule.then.budgets)
    return Sentence("{what}: up to {limits}", what=sentences.what_of(rule), limits=limits)


# --- break-glass, as the four-eyes rule calls it --------------------------------------------------


def lock_tenant(tenant: str) -> None:
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant)


def _apply(request: ChangeRequest, by: Principal, via: Surface) -> None:
    """Raises ``NotPossible``."""
    columns = {name: value for name, value in request.after.items() if name != "seconds"}
    lasts = timedelta(seconds=request.after["seconds"])
    if not timedelta() < lasts <= LONGEST_BREAK_GLASS:
        raise NotPossible(four_eyes.NO_SUCH_CHANGE)
    second = {
        "is_break_glass": True,
        "given_by": request.asked_by,
        "given_by_name": request.asked_by_name,
        "confirmed_by": str(by),
        "confirmed_by_name": by.display_name[:200],
    }
    _give(columns, lasts, second, by, via, request=request.sha256)


def _record(
    request: ChangeRequest, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    subject = f"break_glass:{request.tenant}"
    details["request"] = request.sha256
    record_change(subject, kind, tenant=request.tenant, by=by, via=via, details=details)


def register() -> None:
    events = (ChangeKind.BREAK_GLASS_ASKED, ChangeKind.BREAK_GLASS_DECLINED)
    four_eyes.register(four_eyes.Kind(*events, _record, _apply), KIND)
