"""A route may be for the tools of one owning service."""

from __future__ import annotations

from tests.slack.conftest import CHANNEL, route, settle


def test_the_owning_service_has_a_channel_of_its_own(slack, workspace, team, a_transaction):
    """A route that names the tool beats it; one that names a risk does not."""
    for channel in ("C0PAYMENTS", "C0GRAVE"):
        slack.add_channel(team, channel)
    route(workspace, channel="C0PAYMENTS", owner="payments")
    route(workspace, channel="C0GRAVE", min_risk="LOW")

    a_transaction("pay")
    a_transaction("launch", rocket="Ariane")
    settle()

    by_channel = {item.channel: item.text for item in slack.messages}
    assert by_channel["C0PAYMENTS"].startswith("Pay")
    assert by_channel["C0GRAVE"].startswith("Launch")
    assert CHANNEL not in by_channel
