"""Answers of MCP servers that come after the lease was lost, and another worker has asked."""

from __future__ import annotations

import pytest

from ledger.proof.audit.verification import verify
from ledger.proof.log import checkpoints
from tests.second_workers import TwoAnswers, late_after_the_second, late_before_the_second

pytestmark = pytest.mark.django_db(transaction=True)
ORDERS = pytest.mark.parametrize("order", [late_after_the_second, late_before_the_second])


def receipt(name):
    return {"content": [], "structuredContent": {"id": name}}


@pytest.fixture
def refund(billing, apply, signed_off):
    """A call that was signed off, of a tool that may be called again."""

    def make(first, second):
        apply("billing", "refund", contract={"retry_safe": True, "timeout_s": 60})
        billing.answers["refund"] = answers = TwoAnswers(first, second)
        return signed_off(), answers

    return make


@ORDERS
def test_a_late_result_overwrites_nothing_and_is_kept(order, refund):
    row = order(*refund(receipt("re_1"), receipt("re_2")))

    assert (row.state, row.receipt, row.late_receipt) == ("committed", "re_2", "re_1")
    checkpoints.make()
    verify()


@ORDERS
@pytest.mark.parametrize("code", [-32602, -32603], ids=["not begun", "broken"])
def test_a_late_error_does_not_end_what_the_second_worker_does(order, code, refund):
    row = order(*refund(lambda handler: handler.error(code, "No.", 400), receipt("re_2")))

    assert (row.state, row.receipt, row.late_receipt) == ("committed", "re_2", "")


@ORDERS
def test_a_late_answer_to_another_request_changes_nothing(order, refund):
    other = lambda handler: handler.result(receipt("re_8"), number=handler.number + 1)  # noqa: E731
    row = order(*refund(other, receipt("re_2")))

    assert (row.state, row.receipt, row.late_receipt) == ("committed", "re_2", "")
