"""Temporal: an activity proposes, and waits for as long as people take; its worker may die.

    outcome = await workflow.execute_activity(
        sign_off,
        args=["refund_customer", {...}, {"reason": "The customer sent photos."}],
        start_to_close_timeout=timedelta(days=2),
        heartbeat_timeout=timedelta(seconds=10),  # how soon another worker takes over
    )

The key of a proposal is the workflow's id and the activity's. An activity that is tried again, on
whichever worker, proposes the same again, and gets the same transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from assent_client import BUSY, AsyncAssent, Refused, key_of
from temporalio import activity


@activity.defn
async def sign_off(tool: str, arguments: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The final outcome, as ``Outcome.for_model`` says it.

    Its ``status`` is ``pending`` if people have a ``question``: execute ``answer``.
    """
    me = activity.info()
    key = key_of("temporal", str(me.workflow_namespace), str(me.workflow_id), me.activity_id)
    async with _desk() as desk:
        try:
            intent = await desk.prepare(tool, arguments, key=key, **more)
        except Refused as refusal:
            if refusal.status in BUSY:  # tried again, as the workflow says
                raise
            return refusal.for_model()
        return (await desk.wait(intent.transaction_id)).for_model()


@activity.defn
async def answer(transaction_id: str, text: str) -> dict[str, Any]:
    """The outcome once the question was answered, or again ``pending`` at the next one."""
    async with _desk() as desk:
        try:
            await desk.answer(transaction_id, text)
        except Refused as refusal:
            if refusal.status != 409:  # it was decided meanwhile, or this was said before
                raise
        return (await desk.wait(transaction_id)).for_model()


@asynccontextmanager
async def _desk() -> AsyncIterator[AsyncAssent]:
    """A client; meanwhile the server is told that this worker lives."""
    desk, beating = AsyncAssent(), asyncio.create_task(_beat())
    try:
        yield desk
    finally:
        beating.cancel()
        await desk.close()


async def _beat() -> None:
    seldom = timedelta(minutes=1)
    while True:
        activity.heartbeat()
        await asyncio.sleep((activity.info().heartbeat_timeout or seldom).total_seconds() / 3)
