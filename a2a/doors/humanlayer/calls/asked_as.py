"""Transactions in the terms of the client that asked for them, for people."""

from __future__ import annotations

from a2a.doors.humanlayer.calls import bound_calls, function_calls
from a2a.origins import AskedAs
from ledger.models import Transaction
from ledger.tools.handed_over_calls import is_for_agent


def of_transaction(row: Transaction) -> AskedAs | None:
    if is_for_agent(row):
        return AskedAs(is_bound=False, reject_options=function_calls.options_offered(row.held))
    bound = bound_calls.of_transaction(row)
    if bound is None:
        return None
    return AskedAs(
        is_bound=True,
        function=bound_calls.function_of(bound),
        notes=bound_calls.asked_for(bound),
        reject_options=function_calls.options_offered(bound.spec),
    )
