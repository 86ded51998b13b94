"""The cloud: instances to terminate. It has no idempotency keys: every call takes effect.

It has the instances ``i-4000`` to ``i-4fff`` and those that were added, and refuses any other.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

from examples.sandbox.store import Store, new_id
from examples.sandbox.wire import Answer, Ask, Refused, dice, route, text

STAGES = ("staging", "preview", "test", "batch", "prod")
ROLES = ("web", "api", "reports", "search", "mailer", "import")
REGIONS = ("Frankfurt", "Dublin", "Paris", "Oregon", "Tokyo")
SEEDED = range(0x4000, 0x5000)
SIZES = ("2 vCPU, 8 GB", "4 vCPU, 16 GB", "8 vCPU, 32 GB", "16 vCPU, 64 GB")


@route("GET", "/cloud/instances/{instance_id}")
def read_instance(store: Store, ask: Ask) -> Answer:
    return Answer(instance_of(store, ask.at["instance_id"], ask))


@route("PUT", "/cloud/instances/{instance_id}")
def add_instance(store: Store, ask: Ask) -> Answer:
    """Add an instance, for tests and demos. ``/reset`` removes it."""
    instance_id = ask.at["instance_id"]
    if not re.fullmatch(r"i-[0-9a-f]{4,17}", instance_id):
        raise Refused(422, "invalid_id", "The id of an instance is i- and 4 to 17 hex digits.")
    store.write("INSERT OR IGNORE INTO instances (id) VALUES (?)", instance_id)
    return Answer(instance_of(store, instance_id, ask), 201)


@route(
    "POST",
    "/cloud/instances/{instance_id}/termination",
    required={"reason": text},
    optional={"reference": text},
)
def terminate(store: Store, ask: Ask) -> Answer:
    """Deliberately not idempotent: ``reference`` is stored for the caller and prevents nothing."""
    instance = instance_of(store, ask.at["instance_id"], ask)
    receipt, reference = new_id("term"), ask.fields.get("reference", "")
    store.write(
        "INSERT INTO terminations (receipt, instance_id, reason, reference, at)"
        " VALUES (?, ?, ?, ?, ?)",
        receipt,
        instance["id"],
        ask.fields["reason"],
        reference,
        time.time(),
    )
    summary = f"Terminated {instance['name']} ({instance['id']}) and deleted its disks"
    store.record_effect("termination", instance["id"], reference, receipt, summary)
    return Answer(instance_of(store, instance["id"], ask), 201)


def instance_of(store: Store, instance_id: str, ask: Ask) -> dict[str, Any]:
    if not _is_known(store, instance_id):
        raise Refused(404, "no_such_instance", f"There is no instance {instance_id}.")
    rows = store.rows(
        "SELECT * FROM terminations WHERE instance_id = ? ORDER BY at, rowid", instance_id
    )
    terminations = [
        {
            "receipt": row["receipt"],
            "reason": row["reason"],
            "reference": row["reference"],
            "at": datetime.fromtimestamp(row["at"], UTC).isoformat(),
            "url": f"{ask.base_url}/receipts/{row['receipt']}",
        }
        for row in rows
    ]
    stage, role = (
        names[dice(instance_id, len(names), purpose)]
        for names, purpose in ((STAGES, "stage"), (ROLES, "role"))
    )
    is_terminated = bool(terminations)
    return {
        "id": instance_id,
        "name": f"{stage}-{role}-{dice(instance_id, 20, 'number') + 1:02}",
        "stage": stage,
        "region": REGIONS[dice(instance_id, len(REGIONS), "region")],
        "size": SIZES[dice(instance_id, len(SIZES), "size")],
        "state": "terminated" if is_terminated else "running",
        "connections": 0 if is_terminated else max(0, dice(instance_id, 60, "connections") - 30),
        "termination": terminations[-1] if is_terminated else None,
        "terminations": terminations,
    }


def _is_known(store: Store, instance_id: str) -> bool:
    seeded = re.fullmatch(r"i-([0-9a-f]{4})", instance_id)
    if seeded and int(seeded[1], 16) in SEEDED:
        return True
    return store.row("SELECT id FROM instances WHERE id = ?", instance_id) is not None
