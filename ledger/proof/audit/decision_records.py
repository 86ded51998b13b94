"""Decision records: one subject of the log as one file that verifies offline, years later.

What is in it is what the events sealed, with the proof that they are in the log. docs/audit.md
has the format; ``examples/verify.py record`` checks it without a line of ours.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.transaction import atomic

from ledger import seals, states
from ledger.events import ChangeKind, chain_of
from ledger.models import Event, Transaction, contents_of
from ledger.models.events import Checkpoint
from ledger.proof.log import checkpoints
from ledger.proof.log.checkpoints import Inclusion
from ledger.seals import Link
from ledger.sign_off import passkeys
from ledger.sign_off.passkeys import ASSERTION, ENROLLED
from ledger.transactions import (
    as_of,
    as_prepared,
    former_of,
    is_signed_in_advance,
    links_of,
    standing_decisions,
)

FORMAT, VERSION = "assent-decision-record", 1
HOW_TO_VERIFY = (
    "python verify.py record THIS_FILE --key VERIFIER_KEY_OF_THE_LOG. The script is "
    "examples/verify.py of Assent and needs only Python and the package cryptography; the format "
    "is in docs/audit.md. Take the verifier key from somewhere else than this file."
)

Record = dict[str, Any]


def of_transaction(row: Transaction) -> Record:
    """One transaction: what was shown, who signed, what came of it. Reads one instant."""
    with one_instant():
        row = Transaction.objects.get(pk=row.pk)
        return record_of(
            "transaction",
            row.pk,
            shown=_shown(row),
            prepared=_prepared(row),
            result=seals.column_text("result", row.result),
            **_revisions(row),
            **_evidence(row),
        )


FOR_PEOPLE = frozenset({states.NOTE.kind, states.ADVISE.kind})


def for_agents(record: Record) -> Record:
    """The same without what notes and advice say, which are for people; the digests of their
    texts stay."""
    events = (
        {**event, "reason": ""} if event["kind"] in FOR_PEOPLE else event
        for event in record["events"]
    )
    return {**record, "events": [*events]}


def _prepared(row: Transaction) -> Record:
    """The columns as its first event sealed them, or the last one by which it was changed."""
    columns = {name: seals.column_text(name, getattr(row, name)) for name in seals.FIXED}
    deadline = as_prepared(links_of(row.pk))
    return columns if deadline is None else {**columns, seals.DEADLINE: deadline}


def _revisions(row: Transaction) -> Record:
    """The texts that were shown before it was changed: first the one that its agent proposed."""
    links = links_of(row.pk)
    former = former_of(row.pk, links)
    rows = (as_of(row, former, links, number) for number in range(1, row.revision))
    shown = [each and seals.canonical(seals.intent_of(each)).decode() for each in rows]
    return {"revisions": shown} if shown else {}


def _evidence(row: Transaction) -> Record:
    """The contents of the evidence, in base64; ``None`` for one that is not the sealed one."""
    if not row.evidence:
        return {}
    contents = contents_of(row)
    return {"evidence": [each and base64.b64encode(each).decode() for each in contents]}


def _shown(row: Transaction) -> str | None:
    """The content that was signed off, as its digest was made; ``None`` once it was erased."""
    if row.content_erased_at is not None:
        return None
    return seals.canonical(seals.intent_of(row)).decode()


def record_of(kind: str, subject: Any, **sections: Any) -> Record:
    """The frame that every record has: its events, the checkpoint over them, the keys."""
    rows = Event.objects.filter(subject=subject).order_by("seq")
    links = [Link(*values) for values in rows.values_list(*Link._fields)]
    apart = _signing_links(links)
    point = checkpoint_over(links[-1].id) if links else None
    ids = [link.id for link in (*links, *apart)]
    proofs = checkpoints.inclusions(ids, point) if point else {}
    return {
        "format": FORMAT,
        "version": VERSION,
        "how_to_verify": HOW_TO_VERIFY,
        "subject": {"type": kind, "id": str(subject)},
        **sections,
        "summary": summary_of(links),
        "events": [with_place(link, proofs.get(link.id)) for link in links],
        **({"signing_events": [with_place(e, proofs.get(e.id)) for e in apart]} if apart else {}),
        **signed_by(point),
        "not_in_checkpoint": [link.id for link in links if link.id not in proofs],
        "next_checkpoint_within_s": int(settings.CHECKPOINT_EVERY_S),
    }


def signed_by(point: Checkpoint | None) -> Record:
    """The checkpoint with its cosignatures, and the keys that it is to be compared with."""
    return {
        "checkpoint": None if point is None else str(checkpoints.cosigned_note(point)),
        "keys": {
            "log": None if point is None else str(checkpoints.key_of(point)),
            "witnesses": _witnesses_of(point),
        },
    }


def _signing_links(links: Iterable[Link]) -> list[Link]:
    """The events, in the order of ids, that say which keys those had who signed, until they did;
    and by which grants it was signed in advance.

    Others of their accounts stay out of it: a record is for who reads about one decision.
    """
    last: dict[UUID, int] = {}
    for link in links:
        if is_signed_in_advance(link):
            last[chain_of(f"grant:{link.says.get('grant')}")] = link.id
        if is_signed_in_advance(link) or ASSERTION in link.says:
            last[chain_of(link.principal)] = link.id
    if not last:
        return []
    kinds = (*passkeys.KINDS, ChangeKind.GRANT_GIVEN)
    rows = Event.objects.filter(subject__in=last, kind__in=kinds).order_by("pk")
    return [
        link
        for link in (Link(*values) for values in rows.values_list(*Link._fields))
        if link.id < last[link.subject]
        and (link.kind != ChangeKind.CHANGE_REQUESTED or link.says.get("change") == ENROLLED)
    ]


def summary_of(links: Iterable[Link]) -> Record:
    """Summary of who signed and what came of it, as the events have it."""
    chain = list(links)
    outcome = seals.sealed_outcome(link.says for link in chain)
    return {
        "state": chain[-1].to_state if chain else "",
        "prepared_at": in_words(chain[0].at) if chain else "",
        "decisions": [
            {
                "event": link.id,
                "kind": link.kind,
                "principal": link.principal,
                "principal_name": link.principal_name,
                "via": link.via,
                "reason": link.reason,
                "at": in_words(link.at),
                "intent_digest": link.says.get("intent_digest", ""),
                **({"policy": link.says["policy"]} if "policy" in link.says else {}),
            }
            for link in standing_decisions(chain)
        ],
        "outcome": outcome,
    }


def in_words(at: datetime) -> str:
    """RFC 3339, in UTC, to the microsecond."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def as_file(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, indent=1) + "\n"


def with_place(link: Link, proof: Inclusion | None) -> Record:
    """One event, all fields as text as its seal reads them, with its place in the log."""
    fields: Record = {name: seals.as_text(getattr(link, name)) for name in Link._fields}
    fields |= {"id": link.id, "seq": link.seq}
    fields["leaf_index"] = None if proof is None else proof.index
    path = None if proof is None else [base64.b64encode(node).decode() for node in proof.path]
    return {**fields, "inclusion": path}


def checkpoint_over(event_id: int) -> Checkpoint | None:
    """The newest that a witness cosigned and that covers the event; or just the newest."""
    cosigned = Checkpoint.objects.filter(upto_event__gte=event_id, cosignatures__isnull=False)
    return cosigned.order_by("-size").first() or checkpoints.latest()


def _witnesses_of(point: Checkpoint | None) -> list[str]:
    """The keys of the witnesses that cosigned, as far as this installation knows them."""
    if point is None:
        return []
    return [str(key) for key in checkpoints.cosigned_note(point).by(checkpoints.witness_keys())]


@contextmanager
def one_instant() -> Iterator[None]:
    """Events, checkpoint and tiles as they were together."""
    if connection.in_atomic_block:
        yield
        return
    with atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
