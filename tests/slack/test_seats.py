"""A message shows the seats that the rules ask for, who fills them, and because of which rule."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from ledger.principals import system
from ledger.sign_off import groups
from tests.fake_slack import FakeSlack
from tests.rules.conftest import activated, olga, otto  # noqa: F401
from tests.slack.conftest import settle, state_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rules_ask(request, acme, bob):
    """One of finance, where Bob is, and one more."""
    by = {"by": system("tests", "Tests"), "via": "command"}
    finance = groups.make("acme", "finance", **by)
    since = timezone.now() - timedelta(days=1)
    groups.add(finance, bob, starts_at=since, ends_at=None, in_place_of=None, **by)
    asked = {"verdict": "ask", "seats": {"finance": 1, "approvers": 2}}
    request.getfixturevalue("activated")({"when": {"tool": "pay"}, "then": asked})


def test_each_seat_is_shown_with_its_group_or_with_who_has_signed(
    slack, rules_ask, posted, served, slack_alice, slack_bob
):
    row, message = posted()
    shown = FakeSlack.plain(message)
    assert "To be signed by 1 of finance and a person, because of the rule: pay." in shown
    assert "○ one of finance" in shown
    assert "○ a manager" in shown

    slack.click(message, "approve", slack_bob)
    settle()

    shown = FakeSlack.plain(message)
    assert "● \nBob Tanaka\n of finance" in shown
    assert "one of finance" not in shown
    assert "○ a manager" in shown
    slack.click(message, "approve", slack_alice)
    settle()
    assert state_of(row) == "committed"
