"""A desk with 500 rows in headless Chromium: when it is painted, and when a new row is on it."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

from bench.engines import bench_person, engines, free_port, web

ROWS, AGENTS = 500, 25  # no agent more than its share of the list
NEW_ROWS, PAUSE_S = 60, 0.3
# More urgent than the others: the first page of the desk has the most urgent rows alone.
NEW_TTL_S = 300
OPENED = 11  # times
FIRST_PAINT_MS, NEW_ROW_MS = 1_000, 250  # the limits
CHROMIUM = os.environ.get("ASSENT_CHROMIUM") or shutil.which("chromium")

# Of a new row: when it was in the page, and when the frame with it was painted.
WATCH = """
() => {
  window.seen = {};
  new MutationObserver(changes => {
    for (const change of changes) for (const node of change.addedNodes) {
      const isRow = node.id?.startsWith("row-");
      const rows = isRow ? [node] : [...(node.querySelectorAll?.("[id^=row-]") ?? [])];
      for (const row of rows) {
        const id = row.dataset.id;
        if (id in window.seen) continue;
        window.seen[id] = null;
        requestAnimationFrame(() => setTimeout(() => { window.seen[id] = Date.now(); }));
      }
    }
  }).observe(document.body, {childList: true, subtree: true});
}
"""
OPENED_PAGE = """
() => {
  const page = performance.getEntriesByType("navigation")[0];
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return {
    "first paint ms": paint.startTime,
    "all loaded ms": page.loadEventEnd,
    "page KiB, transferred": page.transferSize / 1024,
    "page KiB": page.decodedBodySize / 1024,
    "rows": document.querySelectorAll("[data-waiting-row]").length,
  };
}
"""


def measure() -> dict[str, float]:
    """First paint in milliseconds (median), size of the page, and milliseconds to a new row."""
    from playwright.sync_api import sync_playwright

    tokens, cookie = _waiting_rows()
    port = free_port()
    address = f"http://localhost:{port}"
    os.environ["ASSENT_PUBLIC_URL"] = address
    with web(port, processes=1), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        opened = [_opened(browser, address, cookie) for _ in range(OPENED)]
        middle = {name: sorted(each[name] for each in opened)[OPENED // 2] for name in opened[0]}
        with _page(browser, address, cookie) as page:
            spans = _new_rows(page, address, tokens)
        browser.close()
    p99 = spans[int(len(spans) * 0.99)]
    return {
        **middle,
        "first paint / limit": middle["first paint ms"] / FIRST_PAINT_MS,
        "slowest first paint ms": max(each["first paint ms"] for each in opened),
        "new row p50 ms": spans[len(spans) // 2],
        "new row p99 ms": p99,
        "new row p99 / limit": p99 / NEW_ROW_MS,
    }


def _opened(browser: Any, address: str, cookie: str) -> dict[str, float]:
    with _page(browser, address, cookie) as page:
        return dict(page.evaluate(OPENED_PAGE))


@contextmanager
def _page(browser: Any, address: str, cookie: str) -> Iterator[Any]:
    """The desk in a browser with an empty cache, the only one that is open."""
    with browser.new_context() as context:
        context.add_cookies([{"name": "assent_session", "value": cookie, "url": address}])
        page = context.new_page()
        page.goto(address, wait_until="load")
        page.wait_for_timeout(500)  # until the socket is open, and the entries are complete
        yield page


def _new_rows(page: Any, address: str, tokens: list[str]) -> list[float]:
    """Milliseconds from the answer to a prepare until its row is painted, in order."""
    page.evaluate(WATCH)
    answered: dict[str, float] = {}
    for place in range(NEW_ROWS):
        answered[_prepare(address, tokens[place % len(tokens)])] = time.time() * 1000
        page.wait_for_timeout(PAUSE_S * 1000)
    painted = "ids => ids.every(id => window.seen[id])"
    page.wait_for_function(painted, arg=list(answered), timeout=10_000)
    seen = page.evaluate("() => window.seen")
    return sorted(seen[pk] - at for pk, at in answered.items())


def _prepare(address: str, token: str) -> str:
    proposal = {"tool": "measured", "arguments": {"name": uuid.uuid4().hex}, "ttl_s": NEW_TTL_S}
    body = json.dumps(proposal).encode()
    headers = {
        "Authorization": f"Bearer {token}",
        "Idempotency-Key": uuid.uuid4().hex,
        "Content-Type": "application/json",
    }
    with urlopen(Request(f"{address}/api/v1/transactions", body, headers)) as answer:
        return str(json.load(answer)["transaction_id"])


def _waiting_rows() -> tuple[list[str], str]:
    """The tokens of the agents whose rows wait, and the session of a person who sees them."""

    from ledger.models import Agent, AgentToken, Tenant

    tenant, _ = Tenant.objects.get_or_create(slug="full", defaults={"name": "Full", "tools": ["*"]})
    tokens = []
    for number in range(AGENTS):
        agent, is_new = Agent.objects.get_or_create(
            tenant=tenant, slug=f"agent-{number}", defaults={"name": f"Agent {number}"}
        )
        tokens.append(AgentToken.issue(agent, scopes=["propose"])[1])
        if is_new:
            _propose(agent, ROWS // AGENTS)
    _user, cookie = bench_person("manager", "approver", "full")
    return tokens, cookie


def _propose(agent: Any, number: int) -> None:
    from ledger.api.rendering import render_token
    from ledger.principals import Surface
    from ledger.transactions import coordinator
    from ledger.transactions.coordinator import Proposal

    for _ in range(number):
        key = uuid.uuid4().hex
        coordinator.prepare(
            Proposal("measured", {"name": key}),
            by=agent.principal,
            tenant=agent.tenant_id,
            key=key,
            via=Surface.REST,
            render=render_token,
        )


def main() -> None:
    """`python -m bench.full_desk`: only this."""
    with engines():
        for name, value in measure().items():
            print(f"  {name:<28} {value:10.2f}", flush=True)


if __name__ == "__main__":
    main()
