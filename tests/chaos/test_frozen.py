"""Each part frozen in turn (SIGSTOP, or a network that swallows) while people and agents go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ledger.foundation import doorbell
from ledger.models import Event, SweeperLease
from ledger.proof.audit.verification import verify
from ledger.states import EventKind, State
from tests import faults
from tests.chaos.people import committed, lateness, refunds, report, seconds_of, state_of
from tests.processes import Product, until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]


@contextmanager
def hung_redis() -> Iterator[None]:
    with faults.frozen(doorbell.redis().info("server")["process_id"]):
        yield


def test_redis_hangs(product, people, capsys):
    """A click takes at most 1 s more, what lapses is at most 2 s late, nothing happens twice."""
    product.start("web", "worker", "sweeper")
    alice, agent = people(product)
    usual = max(seconds_of(lambda: alice.approve(agent.propose())) for _ in range(3))
    until(lambda: refunds(product) == 3, 90, "the usual ones are refunded")

    with hung_redis():
        lapsing = [agent.propose(lapses_in_s=2) for _ in range(5)]
        rows = [agent.propose() for _ in range(6)]
        clicks = [seconds_of(lambda row=row: alice.approve(row)) for row in rows]
        until(lambda: all(state_of(row) == State.ABORTED for row in lapsing), 90, "they lapse")
        late = lateness(lapsing)
        until(lambda: committed(*rows), 90, "carried out while Redis hung")

    after = agent.propose()
    alice.approve(after)
    until(lambda: committed(after), 90, "carried out after Redis went on")
    report(capsys, f"Redis hung: click {usual:.2f} → {max(clicks):.2f} s, expiry {late:.2f} s late")
    assert max(clicks) <= usual + 1
    assert late <= 2
    assert refunds(product) == 3 + 6 + 1


def the_sweeper() -> tuple[int, int]:
    """The epoch of the sweeper that works, and its process."""
    lease = SweeperLease.objects.get()
    return lease.epoch, int(lease.holder.split("process ")[1].partition(",")[0])


def test_the_sweeper_freezes(product, people, capsys):
    """Another takes over within 5 s. The frozen one does no harm when it wakes up."""
    product.start("web", "worker", "sweeper")
    product.processes["first sweeper"] = product.processes.pop("sweeper")
    product.start("sweeper")
    _, agent = people(product)
    until(lambda: product.log("sweeper").count("Sweeping once") == 2, 60, "both run")
    until(SweeperLease.objects.exists, what="one works")
    epoch, pid = the_sweeper()

    with faults.frozen(pid):
        lapsing = [agent.propose(lapses_in_s=1) for _ in range(5)]
        taken_over = seconds_of(lambda: until(lambda: the_sweeper()[0] > epoch, 20))
        until(lambda: all(state_of(row) == State.ABORTED for row in lapsing), 90, "they lapse")
        late = lateness(lapsing)
        again = [agent.propose(lapses_in_s=1) for _ in range(3)]
        until(lambda: all(state_of(row) == State.ABORTED for row in again), 90, "they lapse")
        late_again = lateness(again)

    last = agent.propose(lapses_in_s=1)
    until(lambda: state_of(last) == State.ABORTED, 90, "it lapses")
    report(
        capsys,
        f"sweeper frozen: another after {taken_over:.1f} s, expiry then {late:.2f} s late, "
        f"later {late_again:.2f} s",
    )
    assert taken_over < 5
    assert late < 5
    assert late_again <= 2
    assert the_sweeper()[1] != pid
    expired = Event.objects.filter(kind=EventKind.EXPIRED).values_list("subject", flat=True)
    assert len(expired) == len(set(expired)) == 9
    verify()


@contextmanager
def product_behind_a_network(product: Product) -> Iterator[faults.Network]:
    """What starts from now on reaches PostgreSQL through a network that can swallow."""
    with faults.network(product.environment["DATABASE_URL"]) as (network, url):
        product.environment["DATABASE_URL"] = url
        yield network


def test_the_network_to_the_database_swallows(product, people, capsys):
    """Everybody has an honest answer in time, and all recover by themselves."""
    with product_behind_a_network(product) as network:
        product.start("web", "worker", "sweeper")
        alice, agent = people(product)
        before = agent.propose()
        alice.approve(before)
        until(lambda: committed(before), 90, "the usual one is refunded")
        row = agent.propose()

        with network.swallowing():
            refusal: list[httpx.Response] = []
            took = seconds_of(lambda: refusal.append(alice.approve(row)))
            alive = httpx.get(f"{product.url}/healthz", timeout=5)
            readiness = seconds_of(
                lambda: refusal.append(httpx.get(f"{product.url}/readyz", timeout=10))
            )

        def is_approved() -> bool:
            return alice.approve(row).status_code in {302, 409} and state_of(row) != State.PREPARED

        until(is_approved, 60, "approved afterwards")
        until(lambda: committed(row), 60, "carried out afterwards")
    report(capsys, f"database swallowed: page after {took:.1f} s, /readyz {readiness:.1f} s")
    page, ready = refusal
    assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
    assert "The database does not answer" in page.text
    assert took < 8  # not the 12 s that a statement may take
    assert alive.json()["status"] == "ok"
    assert (ready.status_code, list(ready.json()["missing"])) == (503, ["database"])
    assert readiness < 3
    assert refunds(product) == 2
    verify()
