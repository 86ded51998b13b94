"""Clocks that are ten minutes off, and keys that are replaced in the middle."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from django.db.models import F
from django.db.models.functions import Now

from approvals.conformance.probe import Probe, Sample, Unexpected, WithKey
from ledger import execution
from ledger.errors import PlanFailed, PlanRefused
from ledger.foundation.crypto import signing_keys
from ledger.models import Transaction
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.http_tools.test_example import example, signed_off
from tests.http_tools.test_hostile_answers import http, sends

__all__ = ["example"]
pytestmark = pytest.mark.django_db(transaction=True)

TEN_MINUTES = timedelta(minutes=10)
ANOTHER_KEY = "ab" * 32
# Stands before the example: its machine's clock is so many seconds off.
PYTHON_CLOCK = """
import datetime, runpy, sys, time
off, sys.argv = int(sys.argv[1]), sys.argv[2:]
right = time.time
time.time = lambda: right() + off
class Wrong(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=off)
datetime.datetime = Wrong
runpy.run_path(sys.argv[0], run_name="__main__")
"""
NODE_CLOCK = "const right = Date.now; Date.now = () => right() + {off} * 1000;"


def with_clock(example, off):
    """The example again, on a machine whose clock is off."""
    example.stop()
    if example.command[0] == sys.executable:
        example.start(before=["-c", PYTHON_CLOCK, str(off)])
    else:
        module = example.ledger.parent / "clock.mjs"
        module.write_text(NODE_CLOCK.format(off=off))
        example.start(before=["--import", str(module)])


def carried_out(row):
    Transaction.objects.filter(pk=row.pk, state="in_doubt").update(next_attempt_at=Now())
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


# --- clocks --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("off", "where"), [(600, "ahead of"), (-600, "behind")])
def test_an_owner_whose_clock_is_off_does_nothing_and_people_learn_why(off, where, example, alice):
    example.apply(routes=["plan", "rollback", "find_receipt"])
    row = signed_off(alice)
    with_clock(example, off)

    assert carried_out(row).state == "in_doubt"
    assert "Not signed by Assent" in row.error
    assert example.rows() == {}
    if example.command[0] == sys.executable:  # Node takes the date of its answers from elsewhere
        assert f"s {where} ours." in row.error
    with pytest.raises(PlanRefused):
        propose("refund_invoice", invoice="7", amount="1.00")

    with_clock(example, 0)
    assert carried_out(row).ending == "failed"  # its records are complete, and have no such thing
    again = carried_out(signed_off(alice, invoice="2043"))
    assert again.state == "committed"
    assert [*example.rows()] == [again.operation_key]


@pytest.mark.slow
def test_an_owner_whose_clock_is_off_does_not_say_that_it_is_still_valid(example, alice):
    row = signed_off(alice)
    with_clock(example, 600)

    assert carried_out(row).state == "approved"
    assert "Not signed by Assent" in row.error
    assert row.fencing_token == 0, "it was not claimed"

    with_clock(example, 0)
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
    assert carried_out(row).state == "committed"


@pytest.fixture
def refused(service, registered, alice):
    """Has a refund refused by a 401 with this date, and tells what people read of it."""

    def make(*headers):
        registered(routes=[])
        row = propose("refund_invoice", invoice="7", amount=1)
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        body = b'{"type": "nothing-happened", "detail": "Expired."}'
        service.answers["commit"] = sends(http(body, *headers, status="HTTP/1.1 401 No"))
        execution.commit(row.pk)
        row.refresh_from_db()
        assert row.ending == "failed"
        return row.ending_reason

    return make


def date(off: timedelta) -> str:
    return f"Date: {format_datetime(datetime.now(UTC) + off, usegmt=True)}"


def test_a_refused_signature_comes_with_how_far_the_clocks_are_apart(refused):
    said = refused(date(TEN_MINUTES))

    assert said.startswith("Expired. Its clock is ")
    assert said.endswith(" s ahead of ours.")


UNTOLD = {
    "no date": "",
    "a date of now": "now",
    "no date at all": "Date: tomorrow",
    "an empty one": "Date:",
    "a year of five digits": "Date: Fri, 31 Dec 99999 23:59:59 GMT",
    "a day that is none": "Date: Fri, 99 Dec 2026 23:59:59 GMT",
    "a zone that is none": "Date: Fri, 11 Dec 2026 23:59:59 +9999",
    "no zone": "Date: Fri, 11 Dec 2026 23:59:59 -0000",
}


@pytest.mark.parametrize("what", UNTOLD)
def test_a_date_that_says_nothing_is_not_told(what, refused):
    header = date(timedelta()) if UNTOLD[what] == "now" else UNTOLD[what]

    assert refused(*filter(None, [header])) == "Expired."


@pytest.mark.parametrize("off", [TEN_MINUTES, -TEN_MINUTES])
def test_a_pause_given_as_a_date_of_another_clock_is_a_second(off, service, registered, alice):
    registered(routes=["find_receipt"])
    row = propose("refund_invoice", invoice="7", amount=1)
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    later = format_datetime(datetime.now(UTC) + off, usegmt=True)
    service.answers["commit"] = (202, {}, {"Retry-After": later})
    service.answers["operations"] = (200, {"receipt": {"id": "re_7"}})

    execution.commit(row.pk)

    pause = Transaction.objects.annotate(pause=F("next_attempt_at") - Now()).get().pause
    assert timedelta(0) < pause <= timedelta(seconds=1)


def test_what_a_clock_that_is_behind_holds_until_the_past_is_not_prepared(service, registered):
    registered(routes=["plan"])
    held_until = (datetime.now(UTC) - TEN_MINUTES).isoformat()
    plan = {"summary": "Refund", "held": {"hold": "h1"}, "hold_expires_at": held_until}
    service.answers["plan"] = (200, {"plan": plan})

    with pytest.raises(PlanFailed):
        propose("refund_invoice", invoice="7", amount=1)

    plan["hold_expires_at"] = (datetime.now(UTC) + TEN_MINUTES).isoformat()
    assert propose("refund_invoice", invoice="7", amount=1).held == {"hold": "h1"}


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_key_that_is_replaced_between_plan_and_commit_changes_nothing(example, alice, settings):
    row = signed_off(alice)
    settings.TOOL_KEYS = [ANOTHER_KEY, *settings.TOOL_KEYS]

    assert carried_out(row).state == "committed"
    assert [known["receipt"]["id"] for known in example.rows().values()] == [row.receipt]


@pytest.mark.slow
def test_what_is_in_doubt_is_found_with_the_key_of_later(example, alice, settings):
    row = signed_off(alice)
    example.stop()
    example.start(dies=True)
    assert carried_out(row).state == "in_doubt"
    example.process.wait(20)

    settings.TOOL_KEYS = [ANOTHER_KEY]  # the one before is not even published any more
    example.start()

    assert carried_out(row).state == "committed"
    assert [known["receipt"]["id"] for known in example.rows().values()] == [row.receipt]


@pytest.mark.slow
def test_what_the_key_before_has_signed_counts_as_long_as_it_is_published(example, settings):
    before = signing_keys.key_of(settings.TOOL_KEYS[0])
    sample = Sample("refund_invoice", {"invoice": "7", "amount": "1.00"}, {}, tenant="acme")
    on_its_way = Probe(f"http://127.0.0.1:{example.port}", sample, WithKey(before), timeout_s=10)

    settings.TOOL_KEYS = [ANOTHER_KEY, *settings.TOOL_KEYS]
    _, receipt = on_its_way.committed()
    assert receipt

    settings.TOOL_KEYS = [ANOTHER_KEY]
    with pytest.raises(Unexpected, match="401"):
        on_its_way.committed()
