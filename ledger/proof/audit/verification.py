"""The proof of the whole ledger: what was carried out was signed off, by whom the contract asked.

``histories`` reads one instant of it, ``ledger.transactions.sign_offs`` has the rules, and
``checkpoint_proof`` proves that the events are those that were signed. docs/audit.md says
all of it so that others can write a verifier of their own; examples/verify.py is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from typing import Any
from uuid import UUID

from ledger import seals
from ledger.errors import LedgerError
from ledger.events import erasure_in, sealed_content_faults
from ledger.models import Event
from ledger.proof.audit import histories, named_rows
from ledger.proof.audit.grants import Grants
from ledger.proof.audit.histories import EVERYTHING, History, Part, Vote
from ledger.proof.audit.rights import Rights
from ledger.proof.audit.rule_sets import RuleSets
from ledger.proof.audit.signatures import Signatures
from ledger.proof.audit.stops import Stops
from ledger.proof.audit.totals import UNREADABLE, Totals
from ledger.proof.log import checkpoint_proof
from ledger.proof.log.checkpoint_proof import Coverage
from ledger.seals import Link, hash_of
from ledger.sign_off import passkeys
from ledger.states import Move
from ledger.transactions import (
    ACCOUNT,
    DECISIONS,
    Map,
    chain_faults,
    revision_faults,
    row_faults,
    sign_off_faults,
    standing_decisions,
)

__all__ = ["Broken", "Coverage", "Proof", "hash_of", "verify"]

FAULTS_MAX = 20  # that are named before the rest is left unread
SLICE = 10_000  # old subjects that an incremental proof reads again, in turn


class Broken(checkpoint_proof.Broken):
    """Raised for what cannot be true of an untouched ledger; every fault names its row."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__(" ".join(self.faults))


@dataclass(frozen=True, slots=True)
class Since:
    """Reach of an earlier proof: its checkpoints, and which old subjects were read again."""

    coverage: Coverage
    read_again_upto: UUID | None = None


@dataclass
class Proof:
    """Result of a proof, in numbers."""

    events: int = 0
    transactions: int = 0
    others: int = 0
    checkpoints: int = 0
    uncovered: int = 0
    signing_keys: int = 0
    signing_keys_by_two: int = 0  # that two operators enrolled
    public_keys: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    reached: Since | None = None

    @property
    def is_full_of_faults(self) -> bool:
        return len(self.faults) >= FAULTS_MAX


# What is being proved, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


def verify(
    trusted_keys: frozenset[str] | None = None,
    *,
    since: Since | None = None,
    against: Sequence[str] = (),
    patience: timedelta | None = None,
    progress: Progress = lambda step, done, total: None,
) -> Proof:
    """Prove every history, every row against its history, and every checkpoint, of one instant.

    With ``since``, histories without a newer event are taken as proved then, but for the next
    slice of old ones, so that in time each is read again; ``proof.reached`` is where to go on.

    ``trusted_keys``, ``against`` and ``patience`` as in ``checkpoint_proof.verify``.

    Raises ``Broken`` with up to ``FAULTS_MAX`` faults.
    """
    proof, rights, rule_sets = Proof(), Rights(), RuleSets()
    with histories.snapshot():
        stops, grants, totals, signatures = Stops(), Grants(), Totals(), Signatures()
        proof.faults += [*rights.faults(), *stops.faults(), *grants.faults()]
        proof.faults += [*signatures.enrolment_faults(), *signatures.activation_faults()]
        others = (rule_sets, stops, grants, totals, signatures)
        for step, parts in _parts(since):
            _prove(step, parts, proof, rights, others, progress)
        proof.faults += signatures.counter_faults()
        if since is not None:
            totals.read_others()
        proof.faults += totals.faults(of_all=since is None)
        proof.faults += [*named_rows.document_faults(), *rule_sets.row_faults()]
        proof.faults += named_rows.replacement_faults()
        if since is not None:
            proof.faults += [f"{name} {pk} has no events." for name, pk in _rows_without_events()]
        covered = _prove_checkpoints(proof, since, trusted_keys, against, patience, progress)
        if proof.faults:
            raise Broken(proof.faults[:FAULTS_MAX])
        proof.checkpoints, proof.uncovered = covered.checkpoints, covered.uncovered
        proof.signing_keys, proof.signing_keys_by_two = signatures.keys, signatures.keys_by_two
        proof.public_keys = set(covered.public_keys)
        proof.reached = Since(covered, _slice(since).upto if since else None)
    return proof


def _parts(since: Since | None) -> Iterator[tuple[str, list[Part]]]:
    if since is None:
        yield "histories", [EVERYTHING]
        return
    yield "new histories", [*histories.newer_than(since.coverage.upto_event)]
    yield "old histories", [_slice(since)]


def _slice(since: Since) -> Part:
    """The next old subjects; from the beginning again when there are none."""
    first = Event.objects.filter(seq=1).order_by("subject")
    after = since.read_again_upto
    later = first.filter(subject__gt=after) if after else first
    return Part(after=after, upto=later.values_list("subject", flat=True)[SLICE:].first())


def _rows_without_events() -> list[tuple[str, UUID]]:
    return list(histories.without_events())[:FAULTS_MAX]


def _prove_checkpoints(
    proof: Proof,
    since: Since | None,
    trusted_keys: frozenset[str] | None,
    against: Sequence[str],
    patience: timedelta | None,
    progress: Progress,
) -> Coverage:
    before = since.coverage if since else checkpoint_proof.NOTHING
    total = Event.objects.filter(pk__gt=before.upto_event).count()
    try:
        return checkpoint_proof.verify(
            trusted_keys,
            since=before,
            against=against,
            patience=patience,
            progress=lambda done: progress("checkpoints", done - before.size, total),
        )
    except checkpoint_proof.Broken as broken:
        proof.faults.append(str(broken))
        return checkpoint_proof.NOTHING


# --- histories ----------------------------------------------------------------------------


def _prove(
    step: str,
    parts: Sequence[Part],
    proof: Proof,
    rights: Rights,
    others: tuple[RuleSets, Stops, Grants, Totals, Signatures],
    progress: Progress,
) -> None:
    total, done = sum(histories.events_in(part).count() for part in parts), 0
    for number, history in enumerate(chain.from_iterable(map(histories.read, parts))):
        try:
            proof.faults += faults_of(history, others[-1].keys_of)
            proof.faults += rights.vote_faults(history.links)
            for other in others:
                proof.faults += other.faults_of(history)
        except (*UNREADABLE, ArithmeticError, LedgerError):
            # One such event hides nothing of the others.
            proof.faults.append(f"the events of {history.subject} cannot be read.")
        if proof.is_full_of_faults:
            return
        done += len(history.links)
        proof.transactions += "transaction" in history.rows
        proof.others += "transaction" not in history.rows
        if number % 1_000 == 0:
            progress(step, done, total)
    proof.events += done
    progress(step, total, total)


def faults_of(history: History, keys_of: passkeys.KeysOf = passkeys.keys_of) -> list[str]:
    """Everything that cannot be true of one subject."""
    name, moves = _family_of(history)
    if not history.links:
        subjects = [f"{family} {history.subject}" for family in history.rows]
        subjects = subjects or [f"decision {vote.id}" for vote in history.votes]
        return [f"{subject} has no events." for subject in subjects]
    faults = [*chain_faults(history.links, moves, name)]
    row = history.rows.get(name)
    if row is None:
        if name in histories.families:
            faults.append(f"{name} {history.subject} is missing; its events are there.")
        return faults
    if name == "transaction":
        faults += row_faults(row, history.links)
        faults += revision_faults(row, history.former, history.links)
        faults += sign_off_faults(row, history.links, keys_of)
        faults += _decision_faults(history)
        faults += named_rows.permit_faults(history.permits, history.links)
        faults += named_rows.evidence_faults(history.evidence, history.links)
    else:
        faults += _standing_faults(name, row, history)
    return faults


def _standing_faults(name: str, row: Any, history: History) -> Iterator[str]:
    """Faults of an upper room's row against its events: of its state, erasure and content."""
    links = history.links
    last, erasure = links[-1], erasure_in(links)
    if row.state != last.to_state:
        yield (
            f"{name} {row.id} is {row.state}, but its last event ({last.id}) left it "
            f"{last.to_state}."
        )
    sealed = erasure.says.get("content_erased_at", "") if erasure is not None else ""
    if seals.as_text(row.content_erased_at) != sealed:
        yield f"{name} {row.id}: content_erased_at is not what its events sealed."
    content = histories.families[name].content
    if content is None:
        return
    for link, fault in sealed_content_faults(links, content):
        yield f"event {link.id} of {name} {row.id}: {fault}"
    sealed_contents = content.contents(links)
    for part in sorted({*sealed_contents, *history.contents}):
        if sealed_contents.get(part) != history.contents.get(part):
            yield f"{name} {row.id}: its {part} is not the sealed one."


def _family_of(history: History) -> tuple[str, Map]:
    """The family a history is about: by its row, or where that is gone, by its events."""
    for name in history.rows:
        return name, histories.families[name].moves
    kinds = {link.kind for link in history.links}
    for family in histories.families.values():
        if kinds & set(family.moves):
            return family.name, family.moves
    # Changes of accounts have no state. Their kinds may be those of an app that is absent by now.
    return ACCOUNT, {kind: Move(kind, frozenset({""}), "") for kind in kinds}


def _decision_faults(history: History) -> Iterator[str]:
    """Check the decisions, which the desk shows, against the sealed events."""
    standing = standing_decisions(history.links)
    left = {
        (link.principal, link.says.get("decision_at")): link
        for link in history.links
        if link.kind in DECISIONS
    }
    for vote in history.votes:
        name = f"decision {vote.id} of transaction {vote.transaction_id}"
        link = left.pop((vote.principal, seals.as_text(vote.at)), None)
        if link is None:
            yield f"{name}: no event sealed this decision of {vote.principal}."
        elif _as_sealed(link) != _as_decided(vote):
            yield f"{name} is not what event {link.id} sealed."
        elif vote.is_withdrawn == (link in standing):
            yield f"{name}: whether it was withdrawn is not what its events sealed."
    for link in left.values():
        yield f"event {link.id} of transaction {link.subject}: its decision is missing."


def _as_sealed(link: Link) -> tuple[object, ...]:
    says = link.says
    sealed = (says.get("verdict"), says.get("intent_digest"), says.get("decision_at"))
    origin = (says.get("kept_by", ""), says.get("policy"), says.get("grant"))
    return (*sealed, *origin, link.principal_name, link.via, link.reason)


def _as_decided(vote: Vote) -> tuple[object, ...]:
    decided = (vote.verdict, vote.intent_digest, seals.as_text(vote.at))
    origin = (vote.kept_by, vote.policy, vote.grant_id)
    return (*decided, *origin, vote.principal_name, vote.via, vote.reason)
