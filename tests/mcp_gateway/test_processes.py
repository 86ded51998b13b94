"""Two workers, a courier and a sweeper, and servers that die, are late, or change meanwhile."""

from __future__ import annotations

import threading

import pytest
from django.db.models.functions import Now

from ledger.models import Brake, Transaction, Watched
from tests.conftest import propose
from tests.mcp_gateway.conftest import gateway
from tests.mcp_gateway.upstreams import REFUND
from tests.processes import running, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(600),  # the first test installs the SDK
]
LOOPBACK = {"ASSENT_WEBHOOK_NETWORKS": "127.0.0.0/8"}
WORKERS = ("commits", "another", "courier", "sweeper")


def state_of(row):
    return Transaction.objects.get(pk=row.pk).state


@pytest.mark.parametrize("sdk", ["2026-07-28", "legacy"], indirect=True)
def test_a_server_that_dies_after_its_effect_is_in_doubt_and_found_by_its_own_look_up(
    sdk, acme, signed_off, apply
):
    gateway("add", "invoices", sdk.address)
    apply("invoices", "refund_invoice", find={"tool": "find_refund", "arguments": KEY})
    sdk.stop()
    sdk.start(dies="1")

    with running(*WORKERS, **LOOPBACK):
        row = signed_off("invoices_refund_invoice", invoice="7", amount=5)
        sdk.process.wait(60)
        until(lambda: state_of(row) == "in_doubt", 60, "it is in doubt")
        sdk.start()
        Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
        until(lambda: state_of(row) == "committed", 90, "its receipt is found")

    assert len(sdk.file.read_text().splitlines()) == 1
    assert Transaction.objects.get(pk=row.pk).receipt == "re_1"


def test_a_definition_that_changes_is_held_by_the_processes_themselves(billing, acme):
    billing.tools = [{**REFUND, "description": "Other."}]

    with running("courier", "sweeper", **LOOPBACK):
        Watched.objects.update(read_again_at=Now())
        until(lambda: Brake.objects.filter(is_hold=True).exists(), 60, "it is held")


def test_an_answer_after_the_time_is_over_changes_nothing(billing, acme, signed_off, apply):
    apply("billing", "refund", contract={"timeout_s": 2})
    over = threading.Event()

    def late(handler):
        over.wait(60)
        return {"content": [], "structuredContent": {"id": "re_7"}}

    billing.answers["refund"] = late

    with running(*WORKERS, **LOOPBACK):
        rows = [signed_off(invoice=str(number)) for number in range(3)]
        for row in rows:
            until(lambda row=row: state_of(row) == "in_doubt", 60, "it is in doubt")
        over.set()

    assert {state_of(row) for row in rows} == {"in_doubt"}
    assert len(billing.calls()) == 3
    assert len({call["_meta"]["assent/operation-key"] for call in billing.calls()}) == 3


KEY = {"key": "{operation_key}"}


def test_a_tool_that_hangs_holds_up_no_other_tool_of_the_same_worker(billing, signed_off):
    over = threading.Event()

    def hang(_):
        over.wait(60)
        return {"content": [], "structuredContent": {"id": "re_7"}}

    billing.answers["refund"] = hang

    with running("commits", "sweeper", **LOOPBACK, ASSENT_CALL_THREADS="8"):
        hanging = [signed_off(invoice=str(number)) for number in range(6)]
        until(lambda: len(billing.calls()) == 2, 60, "a quarter of the places hangs")
        other = propose("write_note", text="Hello.")  # passes by policy

        until(lambda: state_of(other) == "committed", 60, "the other tool is carried out")

        assert {state_of(row) for row in hanging} == {"approved", "committing"}
        over.set()
        until(lambda: {state_of(row) for row in hanging} == {"committed"}, 60, "all are done")

    assert len(billing.calls()) == len(hanging)
