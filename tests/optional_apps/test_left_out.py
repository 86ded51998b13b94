"""The product starts and works without each of its optional apps, and without all of them."""

from __future__ import annotations

import httpx
import pytest

from tests.operations.clusters import PATIENCE_S, Cluster, home
from tests.operations.installation import Installation, installed, sign_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
# An address of each app, and one of its tables; of an app without addresses, its command.
ADDRESSES = {
    "a2a.doors.git_bus": "/connections/buses/new/",
    "a2a.doors.humanlayer": "/humanlayer/v1/function_calls/x",
    "a2a.doors.mcp_server": "/.well-known/oauth-protected-resource",
    "approvals.insight": "/insight/",
    "approvals.local": "demo",
    "approvals.scim": "scim_link",
    "approvals.slack": "/slack/",
    "approvals.conformance": "check_tool",
}
APPS = list(ADDRESSES)
WITHOUT = [[], *([app] for app in APPS), APPS]


@pytest.mark.parametrize("left_out", WITHOUT, ids=lambda apps: "+".join(apps) or "nothing")
def test_the_product_works_without(left_out):
    with home() as folder:
        cluster = Cluster(folder, "main").create()
        apps = ",".join(app for app in APPS if app not in left_out) or "none"
        processes = ("sandbox", "web", "worker", "sweeper")
        urls = (cluster.url(), cluster.url("postgres"))
        with installed(*urls, *processes, ASSENT_OPTIONAL_APPS=apps) as desk:
            proposed = desk.propose()
            desk.approve(proposed)
            desk.until_state(proposed, "committed")
            there = {app for app, address in ADDRESSES.items() if is_there(desk, address)}
            assert there == set(APPS) - set(left_out)
            assert "The ledger is whole" in desk.manage("verify_ledger")


def is_there(desk: Installation, address: str) -> bool:
    if not address.startswith("/"):
        return f"\n    {address}\n" in desk.manage("help")
    with httpx.Client(base_url=desk.url, timeout=PATIENCE_S, follow_redirects=True) as browser:
        sign_in(browser)
        return browser.get(address).status_code != 404
