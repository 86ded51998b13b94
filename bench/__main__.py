"""``make bench``: measures every performance target and prints it beside its limit."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from bench.engines import engines

RUNS = 3
Figures = dict[str, float]


def median_of(measure: Callable[[], Figures]) -> Figures:
    runs = [measure() for _ in range(RUNS)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def say(title: str, figures: Figures, limit: str) -> None:
    print(f"\n{title}\n  limit: {limit}")
    for name, value in figures.items():
        print(f"  {name:<28} {value:10.2f}")


def main() -> None:
    print(f"Medians of {RUNS} runs; on shared machines compare the ratios, not the figures.")
    with engines():
        from bench import (
            desks,
            execution,
            full_desk,
            git_bus,
            humanlayer,
            limits,
            prepare,
            reads,
            rules,
            slack,
            tasks,
            verification,
            waiting,
            webhooks,
        )
        from bench.usual import measuring as usual

        for connections in (8, 32):
            figures = median_of(lambda: prepare.measure(connections))  # noqa: B023
            limit = "2,000/s on two processes; ratio 0.5 to the same rows written by psycopg"
            say(f"Prepare, {connections} connections", figures, limit)
            figures = median_of(lambda: reads.measure(connections))  # noqa: B023
            limit = "5,000/s on two processes; the same rows by primary key"
            say(f"Reads, {connections} connections", figures, limit)
        # No more at once than one tool may plan in two processes: others are refused.
        figures = median_of(lambda: prepare.measure(8, "measured"))
        say("Prepare with a plan, 8 connections", figures, "none promised")
        say(
            f"{humanlayer.POLLERS:,} clients of HumanLayer that poll",
            median_of(humanlayer.measure),
            f"{humanlayer.NEEDED:.0f} polls/s; the same rows by key",
        )
        say(
            "Approve to execute begins",
            median_of(execution.approve_to_execute),
            "p99 20 ms",
        )
        say(
            "Approve to execute begins, beside 200 calls of another tenant that hang",
            execution.beside_hanging_calls(),
            "p99 1.2 times of alone",
        )
        say("Sustained, two workers", median_of(execution.commits_per_second), "400 commits/s")
        say("Webhooks, two couriers", median_of(webhooks.webhooks_per_second), "200 webhooks/s")
        say("Expiry lag", median_of(execution.expiry_lag), "p99 1,500 ms")
        for connections in (8, 32):
            figures = median_of(lambda: tasks.measure(connections))  # noqa: B023
            limit = "send 5 times, get 3 times the SDK's own server; p99 lower"
            say(f"A2A tasks, {connections} connections", figures, limit)
        say("GetTask over 20,000 tasks", median_of(tasks.many_known), "none promised")
        say("10,000 parked tasks", tasks.parked_memory(), "ours flat")
        say("A click in Slack", median_of(slack.measure), "acknowledged within 3,000 ms")
        say(
            "A click in Slack, 1,000 messages waiting",
            slack.measure(waiting=1000),
            "acknowledged within 3,000 ms",
        )
        say(
            f"{waiting.NUMBER:,} who wait on one web process",
            waiting.measure(),
            "threads and database sessions as before; a page opens",
        )
        say("A new row on 20 open desks", median_of(desks.measure), "p99 250 ms")
        say(
            f"A new row on {desks.MANY:,} open desks",
            desks.measure_many(),
            "there within 1,000 ms p99, 1 s of processor time",
        )
        say(
            f"A desk with {full_desk.ROWS} rows in Chromium",
            full_desk.measure(),
            f"first paint {full_desk.FIRST_PAINT_MS:,} ms; a new row p99 {full_desk.NEW_ROW_MS} ms",
        )
        say("Passes over git buses", git_bus.measure(), "10,000 archived: 1.2 times of 10")
        say("What stands out", usual.measure(1), "5 % of ordinary requests; 95 % of errors")
        say("Beside floods, half requests and storms", limits.measure(), "a page in 1,000 ms")
        say("Proposals under rules", rules.on_proposals(), "cpu ratio 1.05")
        say("Charging a budget", rules.charged(), "cpu ratio 1.03")
        say("A preview of the rules", rules.preview(), "20 s for 100,000 transactions")
        say(
            f"A proof of {verification.TRANSACTIONS:,} transactions",
            verification.measure(),
            "400 us a transaction; what is new costs the same in a larger ledger",
        )


if __name__ == "__main__":
    main()
