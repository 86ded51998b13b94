"""Function calls: proposed, bound to a tool here, told of, erased."""

from a2a.doors.humanlayer.calls.bound_calls import call_behind
from a2a.doors.humanlayer.calls.function_calls import KEY_PREFIX, create, escalate, read_one, told
from a2a.doors.humanlayer.calls.tool import tool_name_of

__all__ = [
    "KEY_PREFIX",
    "call_behind",
    "create",
    "escalate",
    "read_one",
    "told",
    "tool_name_of",
]
