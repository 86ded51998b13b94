"""Rule sets: edited as a draft, previewed, activated by two operators where they loosen, retired.

What tightens holds at once. What loosens waits until a second operator has confirmed exactly the
rules that the first one saw. Commands on the server need nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import Max
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals
from ledger.contracts import CLICK, Contract
from ledger.errors import NotAllowed, NotFound, NotPossible, Sentence
from ledger.events import ChangeKind, chain_of, four_eyes, lock_chain, record_change
from ledger.models import IN_WORK, ChangeRequest, Event, RuleSet, RuleSetState, Tenant
from ledger.principals import Principal, Surface
from ledger.seals import Link
from ledger.sign_off import passkeys
from ledger.sign_off.rules.activations import signing_faults, statement_of_activation
from ledger.sign_off.rules.budgets import Charge, are_taken, charges_for
from ledger.sign_off.rules.facts import Facts
from ledger.sign_off.rules.loosening import ends_signing, loosened
from ledger.sign_off.rules.rules import (
    Judgement,
    Rule,
    Rules,
    RulesRefused,
    digest_of,
    read,
    unreadable,
)
from ledger.sign_off.rules.terms import Base, Terms, base_of_contract

logger = logging.getLogger(__name__)

KIND = "rules"
OVERTAKEN = Sentence("Somebody has changed the rules meanwhile: look at them as they are now.")
SIGNED_BY_PEOPLE = Sentence(
    "They end that something is signed with a passkey: two operators activate them at the desk, "
    "and the second one signs that."
)


# --- judging --------------------------------------------------------------------------------------


def judge(tenant: str, number: int, facts: Facts, contract: Contract) -> Judgement | None:
    """The terms of a proposal by the tenant's rules of this number; ``None`` where neither these
    nor the contract say more than its columns.

    Rules that cannot be read let nothing pass: the contract's own terms hold, and it is logged.
    """
    if not number and contract.strength == CLICK:
        return None
    return judged_by(tenant, number, facts, base_of_contract(contract))


def judged_by(tenant: str, number: int, facts: Facts, base: Base) -> Judgement:
    """The same, where the contract's terms are known from what was sealed."""
    try:
        return rules_of(tenant, number).judge(facts, base)
    except RulesRefused as refusal:
        logger.error("RULES UNREADABLE: set %s of %s: %s", number, tenant, refusal)
        return unreadable(number, base)


def charges_of(
    judgement: Judgement, facts: Facts, now: datetime, zone: str
) -> dict[int, list[Charge]]:
    """By the number of each rule whose budgets count, the charges of the proposal judged so."""
    return {
        rule.number: charges_for(rule.owner, rule.budgets, facts, now, zone) or []
        for rule in judgement.budgeted
    }


def is_charged(judgement: Judgement, terms: Terms, sealed: Any, facts: Facts, at: datetime) -> bool:
    """True if terms, with the charges sealed then, took all budgets by which they are so loose."""
    asks_all = judgement.without_pass is None or terms.covers(judgement.without_pass)
    limits = [] if asks_all else [(rule.owner, rule.budgets) for rule in judgement.budgeted]
    return are_taken(sealed, limits, facts, at)


def denial(tenant: str, number: int, facts: Facts, contract: Contract) -> Judgement | None:
    """The judgement of what is denied before it is planned, whatever its plan would say."""
    try:
        is_denied = number and rules_of(tenant, number).deny(facts)
    except RulesRefused:
        return None  # it is planned, and judged by the contract
    return judge(tenant, number, facts, contract) if is_denied else None


@lru_cache(maxsize=1024)
def rules_of(tenant: str, number: int) -> Rules:
    """The rules as they were activated; that event is believed, not the row.

    Raises ``RulesRefused`` if they cannot be read.
    """
    if not number:
        return read(0, [])
    for link in _activations(tenant):
        if link.says.get("number") == number:
            return read(number, link.says.get("rules"))
    raise RulesRefused(f"No event activated the rules {number} of {tenant}.")


def _activations(tenant: str) -> Iterator[Link]:
    """The newest first."""
    rows = Event.objects.filter(
        subject=chain_of(f"rules:{tenant}"),
        tenant=tenant,
        kind=ChangeKind.RULES_ACTIVATED,
        to_state="",
    )
    values = rows.order_by("-seq").values_list(*Link._fields)
    return (Link(*each) for each in values)


# --- the life of a set ----------------------------------------------------------------------------


def set_of(terms: Mapping[str, Any] | None) -> int:
    """The number of the rules by which a transaction with these terms was judged; 0 for none."""
    return terms["set"] if terms else 0


def active_number(tenant: str) -> int:
    """0 if it has none."""
    return Tenant.objects.filter(pk=tenant).values_list("rule_set", flat=True).first() or 0


def active(tenant: str) -> RuleSet | None:
    return RuleSet.objects.filter(tenant=tenant, state=RuleSetState.ACTIVE).first()


def in_work(tenant: str) -> RuleSet | None:
    """The one draft, which may be in preview."""
    return RuleSet.objects.filter(tenant=tenant, state__in=IN_WORK).first()


def edit(tenant: str, written: Any, *, seen: str, by: Principal) -> RuleSet:
    """Save the tenant's draft; one in preview is a draft again. It has no effect.

    ``seen`` is the hash of the draft that was looked at, empty for none. Raises ``RulesRefused,
    NotPossible``.
    """
    refuse_agents(by)
    rules = read(0, seals.normalised(written)).rules
    with atomic():
        _lock(tenant)
        draft = in_work(tenant)
        if seen != (draft.sha256 if draft else ""):
            raise NotPossible(OVERTAKEN)
        draft = draft or RuleSet(tenant=tenant, number=_next_number(tenant))
        draft.state, draft.previewed_at = RuleSetState.DRAFT, None
        draft.rules, draft.sha256 = [rule.as_json() for rule in rules], digest_of(rules)
        draft.made_by, draft.made_by_name = str(by), by.display_name
        draft.made_at = Now()
        draft.save()
        four_eyes.overtake(KIND, tenant, KIND)
    draft.refresh_from_db()
    return draft


def discard(tenant: str, *, seen: str) -> None:
    """Delete the draft. Raises ``NotPossible``."""
    with atomic():
        _lock(tenant)
        draft = in_work(tenant)
        if draft is None or draft.sha256 != seen:
            raise NotPossible(OVERTAKEN)
        four_eyes.overtake(KIND, tenant, KIND)
        draft.delete()


def start_preview(tenant: str, *, seen: str) -> RuleSet:
    """Have the draft judged beside the active set, without effect. Raises ``NotPossible``."""
    rows = RuleSet.objects.filter(tenant=tenant, state=RuleSetState.DRAFT, sha256=seen)
    if not rows.update(state=RuleSetState.PREVIEW, previewed_at=Now()):
        raise NotPossible(OVERTAKEN)
    return RuleSet.objects.get(tenant=tenant, state=RuleSetState.PREVIEW)


def activate(tenant: str, *, seen: str, by: Principal, via: Surface) -> ChangeRequest | None:
    """Activate the draft, or have it wait for a second operator where it loosens.

    Returns the change that waits. Raises ``NotPossible``, and ``NotAllowed`` for agents.
    """
    refuse_agents(by)
    with atomic():
        _lock(tenant)
        draft = in_work(tenant)
        if draft is None or digest_of(_rules_in(draft)) != seen:
            raise NotPossible(OVERTAKEN)
        before = active(tenant)
        loosens = _loosened(before, draft)
        if by.is_system and ends_signing(_sealed(before), _rules_in(draft)):
            raise NotPossible(SIGNED_BY_PEOPLE)
        if not loosens or by.is_system:
            _activate(tenant, draft, by, via, loosens)
            return None
        return four_eyes.ask(
            KIND,
            KIND,
            {"number": draft.number, "rules": draft.rules},
            tenant=tenant,
            in_place_of=before.sha256 if before else "",
            loosens=loosens,
            by=by,
            via=via,
        )


def put_back(tenant: str, number: int, *, by: Principal, via: Surface) -> ChangeRequest | None:
    """Activate the rules of an earlier set again, under a new number; as ``activate``.

    A draft that there is would be lost: ``NotPossible``. Raises ``NotFound``.
    """
    with atomic():
        _lock(tenant)
        earlier = RuleSet.objects.filter(tenant=tenant, number=number).first()
        if earlier is None or earlier.state != RuleSetState.RETIRED:
            raise NotFound()
        if in_work(tenant) is not None:
            raise NotPossible(Sentence("There is a draft: activate or discard it first."))
        draft = edit(tenant, earlier.rules, seen="", by=by)
        return activate(tenant, seen=draft.sha256, by=by, via=via)


def refuse_agents(by: Principal) -> None:
    """Raises ``NotAllowed``: neither rules nor groups are for agents to change."""
    if by.is_agent:
        raise NotAllowed(Sentence("Only people make rules, and say who is in a group."))


def _loosened(before: RuleSet | None, after: RuleSet) -> list[str]:
    return loosened(_sealed(before), _rules_in(after))


def _sealed(active: RuleSet | None) -> Sequence[Rule]:
    """By the event that activated it: its row is not sealed."""
    return rules_of(active.tenant, active.number).rules if active else ()


def _rules_in(row: RuleSet | None) -> Sequence[Rule]:
    return read(row.number, row.rules).rules if row else ()


def _activate(
    tenant: str,
    draft: RuleSet,
    by: Principal,
    via: Surface,
    loosens: Sequence[str],
    **sealed: Any,
) -> None:
    before = active(tenant)
    if before is not None:
        RuleSet.objects.filter(pk=before.pk).update(state=RuleSetState.RETIRED, retired_at=Now())
    RuleSet.objects.filter(pk=draft.pk).update(
        state=RuleSetState.ACTIVE,
        activated_by=str(by),
        activated_by_name=by.display_name,
        activated_at=Now(),
    )
    Tenant.objects.filter(pk=tenant).update(rule_set=draft.number)
    four_eyes.overtake(KIND, tenant, KIND)
    details = {
        "number": draft.number,
        "in_place_of": before.number if before else 0,
        "rules": draft.rules,
        "loosens": list(loosens),
        **sealed,
    }
    _record_event(tenant, ChangeKind.RULES_ACTIVATED, by, via, **details)


def _next_number(tenant: str) -> int:
    numbers = RuleSet.objects.filter(tenant=tenant).aggregate(last=Max("number"))
    return (numbers["last"] or 0) + 1


def _lock(tenant: str) -> None:
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant)


# --- what waits for a second operator -------------------------------------------------------------


def _apply(
    request: ChangeRequest,
    by: Principal,
    via: Surface,
    assertion: Mapping[str, str] | None = None,
) -> None:
    """Raises ``NotPossible`` if the draft, or what it replaces, is another one by now, and
    ``NotAllowed`` for what has to be signed and is not.
    """
    draft, before = in_work(request.tenant), active(request.tenant)
    is_same = draft is not None and (draft.number, draft.rules) == (
        request.after["number"],
        request.after["rules"],
    )
    if draft is None or not is_same or request.in_place_of != (before.sha256 if before else ""):
        raise NotPossible(OVERTAKEN)
    sealed: dict[str, Any] = dict(request.asker)
    if ends_signing(_sealed(before), _rules_in(draft)):
        lock_chain(str(by))  # until it is committed none of their keys ends
        sealed[passkeys.ASSERTION] = passkeys.checked(assertion)
    _activate(request.tenant, draft, by, via, request.loosens, **sealed)
    if passkeys.ASSERTION in sealed:
        passkeys.refuse(signing_faults(next(_activations(request.tenant)), passkeys.keys_of))


def _statement(request: ChangeRequest, nonce: str) -> Mapping[str, Any] | None:
    """The statement that whoever confirms it signs, where it ends that something is signed."""
    before = active(request.tenant)
    if not ends_signing(_sealed(before), read(0, request.after["rules"]).rules):
        return None
    says = {**request.after, "in_place_of": before.number if before else 0}
    return statement_of_activation(request.tenant, says, nonce)


def _record(
    request: ChangeRequest, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    _record_event(request.tenant, kind, by, via, number=request.after["number"], **details)


def _record_event(
    tenant: str, kind: ChangeKind, by: Principal, via: Surface, **details: Any
) -> None:
    record_change(
        f"rules:{tenant}",
        kind,
        tenant=tenant,
        by=by,
        via=via,
        name=f"rules {details['number']}",
        details=details,
    )


def register() -> None:
    events = (ChangeKind.RULES_ASKED, ChangeKind.RULES_DECLINED)
    four_eyes.register(four_eyes.Kind(*events, _record, _apply, signed=_statement), KIND)
