"""The cost of verifying the ledger: all of it, with nothing new, and with a day's work new.

The verified ledger is written by COPY, without the triggers: thousands of copies of one
transaction that the product carried out, each with its own digests, seals and hashes.
"""

from __future__ import annotations

import copy
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bench.engines import ROOT

TRANSACTIONS = 100_000
NEW = 1_000
AT_ONCE = 10_000
A_CHECKPOINT = 500  # events, as a busy minute has them


def measure(number: int = TRANSACTIONS, new: int = NEW) -> dict[str, float]:
    """Wall clock and processor seconds, rows that PostgreSQL read, and peak memory."""
    fill(number)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        since = Path(folder, "verified.json")
        whole = _run("--since", str(since))
        nothing = _run("--since", str(since))
        fill(new)
        some = _run("--since", str(since))
    for name, run in {"whole": whole, "nothing new": nothing, f"{new:,} new": some}.items():
        figures |= {f"{name}: {unit}": value for unit, value in run.items()}
    figures["whole: us a transaction"] = whole["wall s"] / number * 1e6
    return figures


def _run(*options: str) -> dict[str, float]:
    """One ``verify_ledger`` as an operator starts it."""
    before, rows_before = resource.getrusage(resource.RUSAGE_CHILDREN), _rows_read()
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _WITH_MEMORY, "verify_ledger", *options],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    memory = re.findall(r"^memory (\d+)$", done.stderr, re.M)
    return {
        "wall s": wall,
        "processor s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "rows read, thousands": (_rows_read() - rows_before) / 1_000,
        "peak memory MB": int(memory[-1]) / 1024,
    }


_WITH_MEMORY = """
import resource, sys
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
print("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def _rows_read() -> int:
    """Rows and index entries that PostgreSQL has handed out of the tables of the ledger."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush(), pg_sleep(1.2)")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT sum(seq_tup_read) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)"
            " FROM pg_stat_user_tables"
        )
        return int(cursor.fetchone()[0])


# --- filling ------------------------------------------------------------------------------


class Original(NamedTuple):
    """A committed transaction with its events and its decision."""

    row: Any
    links: list[Any]
    decision: Any


def fill(number: int) -> None:
    """Add ``number`` committed transactions and checkpoints over them."""
    from django.db import connection

    from ledger.proof.log import checkpoints

    original = _carried_out()
    for begin in range(0, number, AT_ONCE):
        _write(_like(original, n) for n in range(begin, min(begin + AT_ONCE, number)))
    with connection.cursor() as cursor:
        for table in ("event", "transaction", "decision"):
            cursor.execute(f"VACUUM ANALYZE ledger_{table}")
    checkpoints.MOST_EVENTS, usual = A_CHECKPOINT, checkpoints.MOST_EVENTS
    while checkpoints.make() is not None:
        pass
    checkpoints.MOST_EVENTS = usual


def _carried_out() -> Original:
    from bench.execution import approve, prepared
    from ledger import execution
    from ledger.models import Agent, Decision, Tenant, Transaction
    from ledger.transactions import sign_offs

    tenant, _ = Tenant.objects.get_or_create(
        slug="bench", defaults={"name": "Bench", "tools": ["*"]}
    )
    Agent.objects.get_or_create(tenant=tenant, slug="bench", defaults={"name": "Bench"})
    ((pk, digest),) = prepared(1)
    approve(pk, digest)
    execution.commit(pk)
    row = Transaction.objects.get(pk=pk)
    assert row.state == "committed", row.error
    return Original(row, sign_offs.links_of(pk), Decision.objects.get(transaction=row))


def _like(original: Original, n: int) -> Original:
    """A copy with new ids and keys, and about as much content as a refund has."""
    from decimal import Decimal

    from ledger.models import new_id
    from ledger.seals import intents

    row = copy.copy(original.row)
    row.pk = new_id()
    later = timedelta(milliseconds=n)
    row.amount, row.currency = Decimal("48.20") + n % 1000, "EUR"
    row.payload = {"payment": f"pay_{row.pk.hex}", "reason": "The customer was charged twice."}
    row.arguments = {**row.payload, "amount": f"{row.amount:.2f}", "notify": True}
    row.action_summary = f"Refund {row.amount} EUR of payment pay_{row.pk.hex} to Ada Lovelace"
    row.warnings = ["The payment is older than 90 days."]
    row.operation_key = f"bench:bench:{row.pk.hex}"
    row.receipt = f"r-{row.pk.hex}"
    row.result = {"receipt": row.receipt, "status": "done"}
    row.created_at += later
    row.expires_at += later
    row.intent_digest = intents.digest_of(intents.intent_of(row))
    decision = copy.copy(original.decision)
    decision.transaction_id, decision.intent_digest = row.pk, row.intent_digest
    return Original(row, _links_like(original, row), decision)


def _links_like(original: Original, row: Any) -> list[Any]:
    """The same chain for another row, with the hashes that the database would compute."""
    from ledger.seals import intents, seals

    at_first = copy.copy(row)
    for name in seals.OUTCOME:
        setattr(at_first, name, None if name in seals.AS_JSON else "")
    links: list[Any] = []
    for link in original.links:
        says = link.says if links else seals.first_details(at_first)
        if "intent_digest" in says:
            says = {**says, "intent_digest": row.intent_digest}
        if sets := says.get("sets"):
            says = {**says, "sets": seals.outcome_of(row, sets)}
        link = link._replace(
            subject=row.pk,
            transaction_id=row.pk,
            details=intents.canonical(says).decode(),
            previous_hash=links[-1].hash if links else "",
        )
        links.append(link._replace(hash=seals.hash_of(link)))
    return links


def _write(originals: Iterable[Original]) -> None:
    from django.db import connection

    from ledger.models import Decision, Event, Transaction

    rows = list(originals)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        _copy(cursor, Transaction, (original.row for original in rows))
        _copy(cursor, Decision, (original.decision for original in rows))
        _copy(cursor, Event, (link for original in rows for link in original.links))
        cursor.execute("SET session_replication_role = DEFAULT")


def _copy(cursor: Any, model: Any, rows: Iterable[Any]) -> None:
    from django.db.models import AutoField, JSONField

    rows = iter(rows)
    first = next(rows)
    fields = [
        field
        for field in model._meta.concrete_fields
        if not isinstance(field, AutoField) and hasattr(first, field.attname)
    ]
    names = ", ".join(field.column for field in fields)
    columns = [(field.attname, isinstance(field, JSONField)) for field in fields]
    with cursor.copy(f"COPY {model._meta.db_table} ({names}) FROM STDIN") as out:
        for row in chain([first], rows):
            values = [(getattr(row, name), is_json) for name, is_json in columns]
            out.write_row(
                [json.dumps(v) if is_json and v is not None else v for v, is_json in values]
            )


def main() -> None:
    """`python -m bench.verification [TRANSACTIONS]`: only this."""
    from bench.engines import engines

    number = int(sys.argv[1]) if len(sys.argv) > 1 else TRANSACTIONS
    with engines():
        for name, value in measure(number).items():
            print(f"  {name:<36} {value:12.2f}", flush=True)


if __name__ == "__main__":
    main()
