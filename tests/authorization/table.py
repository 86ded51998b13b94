"""The table of who may do what: one row an operation, one column a caller (``table.csv``).

A person's cell is the status that they get; ``sign-in`` where they are sent to the sign-in page.
An agent's cell sums up tokens of each scope: ``200 with propose, else 403`` or ``404`` for all.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

TABLE = Path(__file__).with_name("table.csv")
NO_SCOPE = "no scope"


def read() -> dict[str, dict[str, str]]:
    with TABLE.open(newline="") as file:
        return {row.pop("operation"): row for row in csv.DictReader(file)}


def write(rows: dict[str, dict[str, str]], columns: list[str]) -> None:
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["operation", *columns], lineterminator="\n", restval="")
        writer.writeheader()
        for operation in sorted(rows, key=_order):
            writer.writerow({"operation": operation, **rows[operation]})


def _order(operation: str) -> tuple[str, str]:
    method, _, path = operation.partition(" ")
    return path, method


def cell_of(statuses: dict[str, str]) -> str:
    """Sum up what each scope of one agent got."""
    scopes = defaultdict(list)
    for scope, status in statuses.items():
        scopes[status].append(scope)
    granted = {status: names for status, names in scopes.items() if status.startswith(("2", "3"))}
    refused = "/".join(sorted(scopes.keys() - granted.keys()))
    texts = [
        status if len(names) == len(statuses) else f"{status} with {' or '.join(names)}"
        for status, names in sorted(granted.items())
    ]
    return ", ".join([*texts, f"else {refused}" if texts else refused] if refused else texts)
