"""Running read-only tools for agents, with a record of each run."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import Any
from uuid import UUID

from django.db import connection, connections
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ledger import intents
from ledger.agents.callers import Caller
from ledger.characters import without_nul
from ledger.contracts import ReadonlyTool
from ledger.models import Reading

logger = logging.getLogger(__name__)
# Calls of one tool at once in this process, those included that are not waited for any more: a
# service that hangs holds up nobody but its own callers.
MOST_OF_ONE = 4
PLACE_WITHIN_S = 1.0
_places: defaultdict[tuple[str, str], BoundedSemaphore] = defaultdict(
    lambda: BoundedSemaphore(MOST_OF_ONE)
)


class ToolFailed(Exception):
    """A read-only tool did not answer, or with what cannot be written. It is recorded."""


def read_with(caller: Caller, tool: ReadonlyTool, arguments: Any) -> tuple[UUID, str]:
    """The id of the record and the tool's result as JSON. Raises ``ToolFailed, InvalidRequest``."""
    intents.refuse_unsafe_text(arguments)
    checked = tool.validate(arguments)
    reading = Reading(
        tenant=caller.tenant,
        agent=str(caller.principal),
        tool=tool.name,
        arguments=checked.model_dump(mode="json"),
    )
    try:
        result = _in_time(tool, checked, _places[caller.tenant, tool.name])
        text = json.dumps(to_jsonable_python(result, fallback=repr, inf_nan_mode="strings"))
    except Exception as failure:
        logger.warning("%s failed", tool.name, exc_info=True)
        reading.error = without_nul(f"{type(failure).__name__}: {failure}"[:2000])
        reading.save()
        raise ToolFailed(f"{tool.name} did not answer.") from failure
    reading.result_hash = hashlib.sha256(text.encode()).hexdigest()
    reading.save()
    return reading.pk, text


class TooManyAtOnce(Exception):
    """Others call the tool, and none has come back in time."""


def _in_time(tool: ReadonlyTool, arguments: BaseModel, places: BoundedSemaphore) -> Any:
    """The tool's result. Raises ``TimeoutError``; the thread of a tool that hangs is abandoned, and
    keeps its place until it ends. Raises ``TooManyAtOnce``. Who waits here has no session."""
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()  # back to the pool
    if not places.acquire(timeout=PLACE_WITHIN_S):
        raise TooManyAtOnce(f"{MOST_OF_ONE} calls of it have not come back.")
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=tool.name)
    try:
        running = pool.submit(_read, tool, arguments)
    except BaseException:
        places.release()
        raise
    running.add_done_callback(lambda _: places.release())
    pool.shutdown(wait=False)
    return running.result(tool.timeout.total_seconds())


def _read(tool: ReadonlyTool, arguments: BaseModel) -> Any:
    try:
        return tool.read(arguments)
    finally:
        connections.close_all()
