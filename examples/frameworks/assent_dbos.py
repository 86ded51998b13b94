"""DBOS: a workflow proposes, and waits for as long as people take; its process may die meanwhile.

    outcome = await sign_off("refund_customer", {...}, reason="The customer sent photos.")

The key of a proposal is the workflow's id and the step's. A step that is repeated, after a failure
or in another process, proposes the same again, and gets the same transaction. What waits is one
open request, no thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from assent_client import BUSY, AsyncAssent, Refused, key_of
from dbos import DBOS


async def sign_off(tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The final outcome, as ``Outcome.for_model`` says it; call it within a workflow.

    Its ``status`` is ``pending`` if people have a ``question``: call ``answer``.
    """
    proposed = await propose(tool, arguments, dict(more))
    if "status" in proposed:  # refused, nothing was proposed
        return proposed
    return await outcome(proposed["transaction_id"])


async def answer(transaction_id: str, text: str) -> dict[str, Any]:
    """The outcome once the question was answered, or again ``pending`` at the next one."""
    await say(transaction_id, text)
    return await outcome(transaction_id)


@DBOS.step(retries_allowed=True, max_attempts=10, interval_seconds=5)
async def propose(tool: str, arguments: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    key = key_of("dbos", str(DBOS.workflow_id), str(DBOS.step_id))
    async with _desk() as desk:
        try:
            intent = await desk.prepare(tool, arguments, key=key, **more)
        except Refused as refusal:
            if refusal.status in BUSY:  # tried again
                raise
            return refusal.for_model()
    return intent.as_dict()


@DBOS.step(retries_allowed=True, max_attempts=10, interval_seconds=5)
async def outcome(transaction_id: str) -> dict[str, Any]:
    async with _desk() as desk:
        return (await desk.wait(transaction_id)).for_model()


@DBOS.step(retries_allowed=True, max_attempts=10, interval_seconds=5)
async def say(transaction_id: str, text: str) -> None:
    async with _desk() as desk:
        try:
            await desk.answer(transaction_id, text)
        except Refused as refusal:
            if refusal.status != 409:  # it was decided meanwhile, or this was said before
                raise


@asynccontextmanager
async def _desk() -> AsyncIterator[AsyncAssent]:
    """A client of this event loop: a workflow that is recovered runs in another."""
    desk = AsyncAssent()
    try:
        yield desk
    finally:
        await desk.close()
