"""Cost of the poll of 1,000 clients of HumanLayer, beside the same rows read through psycopg.

python -m bench.humanlayer
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from bench.engines import bench_agent, engines, free_port, web
from bench.http_load import SECONDS, Figures, Load, request
from bench.prepare import bare_rate, dsn
from bench.usage import cpu_seconds

POLLERS, EVERY_S = 1_000, 3
NEEDED = POLLERS / EVERY_S
KINDS = {"function_calls": "function call", "contact_requests": "human contact"}


def measure(connections: int = 32) -> Figures:
    """Polls a second as fast as they are answered, what one costs, and whether it is enough."""
    token = bench_agent("propose", "submit")
    ids = _known(token)
    bare = bare_rate(connections, _bare_client, (dsn(), ids["function_calls"]))
    port, figures = free_port(), {"needed/s": NEEDED, "bare, by key/s": bare}
    with web(port) as pids:
        load = Load(f"http://127.0.0.1:{port}", connections)
        for kind, name in KINDS.items():
            load.run(_polls(token, kind, ids[kind]), seconds=1.5)  # warm up
            before = cpu_seconds(*pids)
            load.run(_polls(token, kind, ids[kind]), seconds=SECONDS)
            used = cpu_seconds(*pids) - before
            ours = load.figures()
            figures |= {f"{name}{unit}": value for unit, value in ours.items()}
            figures[f"{name} cpu ms"] = used * 1000 / max(1, len(load.spans))
            figures[f"{name}, of what is needed"] = ours["/s"] / NEEDED
            figures[f"{name}, ratio to bare"] = ours["/s"] / bare
    return figures


def _known(token: str) -> dict[str, list[str]]:
    """As many of each as there are pollers; all of them wait for people."""
    from django.db import connection

    from a2a.doors.humanlayer import calls, contacts
    from ledger.agents.callers import caller_with

    caller = caller_with(token)
    assert caller is not None
    run = random.randbytes(4).hex()
    ids = [f"call-{run}-{number}" for number in range(POLLERS)]
    for call_id in ids:
        spec: dict[str, Any] = {"fn": "send_email", "kwargs": {"to": f"{call_id}@example.com"}}
        calls.create(caller, {"run_id": run, "call_id": call_id, "spec": spec})
        contacts.create(caller, {"run_id": run, "call_id": call_id, "spec": {"msg": "Ship it?"}})
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    connection.close()
    return dict.fromkeys(KINDS, ids)


def _polls(token: str, kind: str, ids: list[str]) -> Iterator[bytes]:
    headers = {"authorization": f"Bearer {token}"}
    while True:
        yield request("GET", f"/humanlayer/v1/{kind}/{random.choice(ids)}", **headers)


def _bare_client(dsn: dict[str, Any], ids: list[str]) -> Callable[[], None]:
    import psycopg

    connection = psycopg.connect(**dsn, autocommit=True)
    sql = """SELECT * FROM ledger_idempotencykey k JOIN ledger_transaction t
             ON t.id = k.transaction_id
             WHERE k.agent = 'agent:bench/bench' AND k.route = 'prepare' AND k.key = %s"""

    def once() -> None:
        connection.execute(sql, [f"humanlayer:{random.choice(ids)}"], prepare=True).fetchone()

    return once


if __name__ == "__main__":
    with engines():
        for name, value in measure().items():
            print(f"{name:<36} {value:10.2f}")
