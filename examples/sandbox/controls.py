"""Requests with which tests and demos control the sandbox. Faults do not apply to them."""

from __future__ import annotations

from examples.sandbox.faults import DELAYS, Fault, Mode
from examples.sandbox.store import Store
from examples.sandbox.wire import Answer, Ask, Refused, count, one_of, route, seconds, text


@route(
    "POST",
    "/faults",
    required={"path": text, "mode": one_of(*Mode)},
    optional={
        "seconds": seconds,
        "times": count,
        "method": one_of("GET", "POST", "PUT", "DELETE", "*"),
    },
)
def plan_fault(store: Store, ask: Ask) -> Answer:
    fault = Fault(**{**ask.fields, "mode": Mode(ask.fields["mode"])})
    if (fault.mode in DELAYS) != ("seconds" in ask.fields):
        raise Refused(422, "invalid_field", "seconds: required for a delay, not allowed otherwise.")
    store.faults.plan(fault)
    return Answer({"faults": store.faults.listed()}, 201)


@route("GET", "/faults")
def list_faults(store: Store, ask: Ask) -> Answer:
    return Answer({"faults": store.faults.listed()})


@route("DELETE", "/faults")
def clear_faults(store: Store, ask: Ask) -> Answer:
    store.faults.clear()
    return Answer({"faults": []})


@route("POST", "/reset")
def reset(store: Store, ask: Ask) -> Answer:
    """Delete everything, including the planned faults."""
    store.faults.clear()
    store.reset()
    return Answer({"total": 0})
