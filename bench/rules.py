"""The cost of rules: on proposals, and of a preview over a tenant's history."""

from __future__ import annotations

import time
from datetime import timedelta

from bench import prepare, verification
from bench.engines import bench_agent
from bench.http_load import Figures

RULES = 50


def rules(number: int) -> list[dict[str, object]]:
    """As a company would have them: most name a tool, some an amount or an agent, none matches."""
    shapes = (
        lambda n: {"when": {"tool": f"tool_{n}", "amount": {"below": "50 EUR"}}, "then": "pass"},
        lambda n: {"when": {"tool": f"tool_{n}", "amount": {"at_least": "900 EUR"}}, "then": "ask"},
        lambda n: {"when": {"agent": f"agent-{n}"}, "then": "ask"},
        lambda n: {"when": {"arguments.name": f"name {n}", "agent": "nobody"}, "then": "deny"},
        lambda n: {"when": {"risk": "CRITICAL"}, "then": {"verdict": "ask", "note": True}},
    )
    return [shapes[n % len(shapes)](n) for n in range(number)]


def activate(written: list[dict[str, object]]) -> None:
    """Have the tenant of the bench judged by these rules."""
    from ledger.principals import Surface, system
    from ledger.sign_off.rules import activate, edit, in_work

    by = system("bench", "Bench")
    draft = in_work("bench")
    draft = edit("bench", written, seen=draft.sha256 if draft else "", by=by)
    activate("bench", seen=draft.sha256, by=by, via=Surface.COMMAND)


def on_proposals(connections: int = 8) -> Figures:
    """Proposals per second without rules and with them, in one run."""
    without = prepare.measure(connections)
    activate(rules(RULES))
    with_rules = prepare.measure(connections)
    return {
        "without/s": without["prepare/s"],
        f"{RULES} rules/s": with_rules["prepare/s"],
        "cpu ms without": without["prepare cpu ms"],
        "cpu ms with": with_rules["prepare cpu ms"],
        "cpu ratio": with_rules["prepare cpu ms"] / without["prepare cpu ms"],
    }


def charged(connections: int = 8) -> Figures:
    """Proposals that a rule lets pass, without a budget and with one that has room, in one run."""
    when = {"tool": "refunded", "amount": {"below": "50 EUR"}}
    endless = {"verdict": "pass", "budgets": [{"most": "1000000000 EUR", "per": "total"}]}
    bench_agent("propose")
    figures: Figures = {}
    for name, then in (("free", "pass"), ("charged", endless)):
        activate([{"when": when, "then": then}])
        run = prepare.measure(connections, "refunded")
        figures |= {f"{name}/s": run["prepare/s"], f"cpu ms {name}": run["prepare cpu ms"]}
    figures["cpu ratio"] = figures["cpu ms charged"] / figures["cpu ms free"]
    return figures


def preview(number: int = verification.TRANSACTIONS) -> Figures:
    """Seconds for a preview of so many transactions."""
    from ledger.sign_off.rules import preview as previews, read
    from ledger.tools import tool_named

    verification.fill(number)
    began = time.perf_counter()
    result = previews.whole(
        previews.proposals("bench", timedelta(days=36_500)),
        read(0, rules(RULES)),
        lambda name: tool.contract if (tool := tool_named("bench", name)) else None,
    )
    seconds = time.perf_counter() - began
    return {"transactions": float(result.judged), "s": seconds}
