"""The table at the end of a storm."""

from __future__ import annotations

from collections import Counter

from bench.chaos import checker
from bench.chaos.records import Records

SHOWN = 10  # violations of each invariant


def table(records: Records, happened: Counter[str], found: dict[str, list[str]]) -> str:
    """Transactions by outcome, faults by kind, and each invariant with its violations."""
    lines = ["", "Transactions by outcome"]
    outcomes = Counter(_outcome(row) for row in records.rows.values())
    lines += [f"  {count:6,}  {outcome}" for outcome, count in outcomes.most_common()]
    lines += [f"  {len(records.rows):6,}  in all", "", "What the clients were told"]
    told = Counter(line["did"].replace("_", " ") for line in records.clients)
    lines += [f"  {count:6,}  {did}" for did, count in told.most_common()]
    lines += ["", "What the outside did"]
    done = Counter(line["did"] for line in records.outside)
    lines += [f"  {count:6,}  {did}" for did, count in done.most_common()]
    lines += [f"  {checker.orphaned_holds(records):6,}  holds of killed requests, which lapse"]
    lines += ["", "Faults"]
    lines += [f"  {count:6,}  {kind}" for kind, count in sorted(happened.items())]
    lines += [f"  {happened.total():6,}  in all", "", "Invariants, and what broke them"]
    for sentence, violations in found.items():
        lines.append(f"  {len(violations):6,}  {sentence}")
        lines += [f"            {each}" for each in violations[:SHOWN]]
    return "\n".join(lines)


def _outcome(row: dict[str, str]) -> str:
    return f"{row['state']} ({row['ending']})" if row["ending"] else row["state"]
