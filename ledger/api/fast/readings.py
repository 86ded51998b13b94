"""Running read-only tools for agents, with a record of each run."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ledger import seals
from ledger.agents import Caller
from ledger.contracts import MayHaveHappened, NothingHappened, ReadonlyTool
from ledger.contracts.results import clean
from ledger.foundation.characters import without_nul
from ledger.foundation.lanes import Lane
from ledger.models import Reading
from ledger.tools import silent_addresses
from ledger.tools.silent_addresses import Address

logger = logging.getLogger(__name__)
MOST_OF_ONE = 4


class NotCalled(Exception):
    """Others call the tool, or its address, and none has come back in time."""


# Calls of one tool at once in this process, those included that are not waited for any more: a
# service that hangs holds up nobody but its own callers.
_lane = Lane(
    "tool-readings",
    math.inf,
    most_of_one=MOST_OF_ONE,
    within=1.0,
    refusal=partial(NotCalled, f"{MOST_OF_ONE} calls of it have not come back."),
    daemon=True,
)


class ToolFailed(Exception):
    """A read-only tool did not answer, or with what cannot be written. It is recorded."""


def read_with(caller: Caller, tool: ReadonlyTool, arguments: Any) -> tuple[UUID, str]:
    """The id of the record and the tool's result as JSON. Raises ``ToolFailed, InvalidRequest``."""
    seals.refuse_unsafe_text(arguments)
    checked = tool.validate(arguments)
    reading = Reading(
        tenant=caller.tenant,
        agent=str(caller.principal),
        tool=tool.name,
        arguments=checked.model_dump(mode="json"),
    )
    try:
        result = _in_time(caller.tenant, tool, checked)
        text = json.dumps(to_jsonable_python(result, fallback=repr, inf_nan_mode="strings"))
    except Exception as failure:
        logger.warning("%s failed", tool.name, exc_info=True)
        is_for_agents = isinstance(failure, NothingHappened | MayHaveHappened)
        says = f" It says: {clean(str(failure))}" if is_for_agents else ""
        if isinstance(failure, NotCalled):
            says = f" It was not called now. {failure}"
        reading.error = without_nul(f"{type(failure).__name__}: {failure}"[:2000])
        reading.save()
        raise ToolFailed(f"{tool.name} did not answer.{says}") from failure
    reading.result_hash = hashlib.sha256(text.encode()).hexdigest()
    reading.save()
    return reading.pk, text


def _in_time(tenant: str, tool: ReadonlyTool, arguments: BaseModel) -> Any:
    """The tool's result. Raises ``TimeoutError, NotCalled``. Who waits here has no session."""
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()  # back to the pool
    address = silent_addresses.address_of(tenant, tool, None)
    silent_addresses.read()
    with silent_addresses.turn(address, tool.timeout) as may_call:
        if not may_call:
            raise NotCalled("One call at a time finds out whether it answers again.")
        result = _noted(address, tenant, tool, arguments)
    return result


def _noted(address: Address, tenant: str, tool: ReadonlyTool, arguments: BaseModel) -> Any:
    try:
        result = _lane.run_sync(
            (tenant, tool.name),
            partial(tool.read, arguments),
            timeout=tool.timeout.total_seconds(),
        )
    except NotCalled:
        raise
    except Exception as failure:
        silent_addresses.note(address, silent_addresses.is_silence(failure))
        raise
    silent_addresses.note(address, is_silence=False)
    return result
