"""agent-ledger: an effect that requires an approval, over its PostgreSQL store.

Its ``run`` waits inside the caller until somebody approves, asking again ever less often. So a
server that does not keep a request open for each proposal does what ``run`` does in two parts:
``begin`` and ``request_approval``, later ``approve`` and ``run``, which finds the effect ready.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from agent_ledger import EffectLedger, EffectLedgerOptions, ToolCall
from agent_ledger.stores.postgres import SCHEMA_SQL, PostgresStore
from psycopg_pool import AsyncConnectionPool
from serving import DATABASE, application, perform, serve
from starlette.applications import Starlette

POOL = 20
ledger: Any = None
pool: Any = None


def _call(proposal: dict[str, Any]) -> ToolCall:
    return ToolCall(workflow_id=proposal["name"], tool="measured", args=proposal)


async def propose(proposal: dict[str, Any]) -> None:
    begun = await ledger.begin(_call(proposal))
    await ledger.request_approval(begun.effect.idem_key)


async def approve(name: str) -> None:
    # The arguments come from the ledger: whoever approves does not send them again.
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT idem_key, args_canonical::json FROM effects WHERE workflow_id = %s", [name]
        )
        key, proposal = await cursor.fetchone()
    await ledger.approve(key)

    async def handler(_effect: Any) -> dict[str, str]:
        return perform(name)

    await ledger.run(_call(proposal), handler=handler)


@asynccontextmanager
async def lifespan(_app: Any) -> AsyncIterator[None]:
    global ledger, pool
    async with AsyncConnectionPool(DATABASE, max_size=POOL) as pool:
        ledger = EffectLedger(EffectLedgerOptions(store=PostgresStore(pool=pool)))
        yield


def make() -> Starlette:
    return application(propose, approve, lifespan)


if __name__ == "__main__":
    with psycopg.connect(DATABASE) as connection:
        connection.execute(SCHEMA_SQL)
    serve("agent_ledger_peer")
