"""``make bench peers``: the same operations by other products, on one PostgreSQL, in one run."""

from __future__ import annotations

import math
import statistics
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.engines import engines
from bench.peers.load import Answer, Request, send
from bench.peers.products import PRODUCTS, Running, Serving

SECONDS = 5.0
MOST_PROPOSALS = 15_000
APPROVED = 1_000
APPROVED_TWICE = 100
CONNECTIONS = (8, 32)
Figures = dict[str, float]


def measure(serving: Serving, connections: int) -> Figures:
    """Rates, latencies in milliseconds, and what one operation writes."""
    with serving() as product:
        _accepted(send(product.port, connections, _proposals(product, 200)))  # warm up
        figures: Figures = {}
        with _written(product.database, figures, "propose") as count:
            parked = _accepted(send(product.port, connections, _proposals(product), SECONDS))
            count.append(len(parked))
        figures |= _rates("propose", [(answer.began, answer.ended) for answer in parked])
        with _written(product.database, figures, "approve") as count:
            spans = _approve(product, connections, parked[:APPROVED])
            count.append(len(spans))
        figures |= _rates("approve to effect", spans)
        twice = parked[APPROVED : APPROVED + APPROVED_TWICE]
        return figures | {"second effects, of 100": _second_effects(product, connections, twice)}


def _proposals(product: Running, number: int = MOST_PROPOSALS) -> list[Request]:
    return [product.propose(uuid.uuid4().hex) for _ in range(number)]


def _accepted(answers: list[Answer]) -> list[Answer]:
    refused = next((answer for answer in answers if answer.is_refused), None)
    assert refused is None, refused
    return answers


def _approve(
    product: Running, connections: int, parked: Sequence[Answer]
) -> list[tuple[float, float]]:
    """The instants at which each approval was sent, and its effect happened."""
    requests = [product.approve(answer) for answer in parked]
    answers = _accepted(send(product.port, connections, requests))
    done = _effects(product, answers)
    return [(answer.began, done[answer.name]) for answer in answers]


def _effects(product: Running, answers: Sequence[Answer]) -> dict[str, float]:
    """The instant of each answer's effect, once all have one; else the instant of the answer."""
    if product.effects is None:
        return {answer.name: answer.ended for answer in answers}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done = dict(product.effects())
        if done.keys() >= {answer.name for answer in answers}:
            return done
        time.sleep(0.1)
    raise AssertionError("not every approved operation was carried out")


def _second_effects(product: Running, connections: int, parked: Sequence[Answer]) -> float:
    """Effects too many when each approval is sent twice at the same time; NaN where unknown."""
    if product.effects is None or not parked:
        return math.nan
    requests = [product.approve(answer) for answer in parked for _ in range(2)]
    answers = send(product.port, connections, requests)
    _effects(product, answers)
    time.sleep(2)  # for a second effect that comes late
    names = [name for name, _ in product.effects()]
    return 100 * (len(names) - len(set(names))) / len(parked)


def _rates(name: str, spans: Sequence[tuple[float, float]]) -> Figures:
    lasted = sorted((end - begin) * 1000 for begin, end in spans)
    took = max(end for _, end in spans) - min(begin for begin, _ in spans)
    return {
        f"{name}: /s": len(spans) / took,
        f"{name}: p50 ms": statistics.median(lasted),
        f"{name}: p99 ms": lasted[int(len(lasted) * 0.99)],
    }


@contextmanager
def _written(database: str, figures: Figures, name: str) -> Iterator[list[int]]:
    """Adds to ``figures`` what the server wrote for each of so many operations."""
    count: list[int] = []
    before = _counters(database)
    yield count
    after = _counters(database)
    labels = ("WAL bytes", "rows written")
    for label, old, new in zip(labels, before, after, strict=True):
        figures[f"{name}: {label}"] = (new - old) / count[0]


def _counters(database: str) -> tuple[float, ...]:
    from django.db import connection

    time.sleep(1.5)  # idle sessions report their counters within a second
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_current_wal_insert_lsn() - '0/0', tup_inserted + tup_updated + tup_deleted"
            " FROM pg_stat_database WHERE datname = %s",
            [database],
        )
        row = cursor.fetchone()
    connection.close()
    return tuple(float(value) for value in row)


def main() -> None:
    print("Two processes each, one PostgreSQL, one payload. Compare within this run only.")
    with engines():
        for connections in CONNECTIONS:
            table = {name: measure(serving, connections) for name, serving in PRODUCTS.items()}
            print(f"\n{connections} connections")
            print(f"  {'':<28}" + "".join(f"{name:>14}" for name in table))
            for label in next(iter(table.values())):
                cells = "".join(f"{table[name][label]:>14.1f}" for name in table)
                print(f"  {label:<28}{cells}")


if __name__ == "__main__":
    main()
