"""Operators see on their page whether a bus can be reached, and what waits there for a person."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from a2a.doors.git_bus.models import BusRequest, GitBus, Progress
from approvals import metrics

pytestmark = pytest.mark.django_db


def page_of(client) -> str:
    return " ".join(client.get("/ops/").content.decode().split())


def test_the_page_names_each_bus_of_the_operator_and_what_went_wrong(bus, as_olga):
    assert "never fetched" in page_of(as_olga)
    GitBus.objects.update(fetched_at=Now(), head="ab" * 20, error="There is no branch 'main'.")

    page = page_of(as_olga)

    assert "Agents reached through git repositories" in page
    assert "commit abababababab" in page
    assert "There is no branch" in page


def test_a_rewritten_history_and_names_that_are_no_requests_are_shown(bus, as_olga):
    GitBus.objects.update(rewritten_at=Now(), unusable=["a b.json: no name of a request"])

    page = page_of(as_olga)

    assert "Its history was rewritten" in page
    assert "a b.json: no name of a request" in page


def test_what_waits_is_shown_with_its_reason_and_how_far_it_can_be_trusted(bus, as_olga):
    a_request(bus, "r-1", Progress.PROBLEM, problem="It has been answered already.")
    a_request(bus, "r-2", Progress.HELD, author="Ann <ann@partner.example>")
    a_request(bus, "r-3", Progress.TAKEN)

    page = page_of(as_olga)

    assert "It has been answered already." in page
    assert "It names Ann &lt;ann@partner.example&gt;; nothing proves that." in page
    assert "r-3" not in page


def test_a_claim_of_another_is_stuck_when_the_bus_says_so(bus, as_olga):
    row = a_request(bus, "r-1", Progress.ELSEWHERE, processed_by="other_agent")
    stuck = metrics.gathered()["assent_bus_stuck_claims"]
    assert stuck.value == 0

    BusRequest.objects.filter(pk=row.pk).update(claimed_at=Now() - timedelta(minutes=61))

    assert metrics.gathered()["assent_bus_stuck_claims"].value == 1
    assert "Claimed by other_agent, and not answered." in page_of(as_olga)
    GitBus.objects.update(stuck_after=timedelta(hours=2))
    assert metrics.gathered()["assent_bus_stuck_claims"].value == 0


def test_figures_tell_since_when_a_bus_is_silent_and_which_one_fails(bus):
    GitBus.objects.update(fetched_at=Now() - timedelta(seconds=700), error="git fetch: gone")
    a_request(bus, "r-1", Progress.PROBLEM)

    ours, theirs = (metrics.gathered(frozenset({slug})) for slug in ("acme", "globex"))

    assert ours["assent_bus_fetched_seconds"].of(bus="acme/partner") >= 700
    assert ours["assent_bus_failing"].of(bus="acme/partner") == 1
    assert ours["assent_bus_requests"].of(progress="problem") == 1
    assert theirs["assent_bus_fetched_seconds"].values == {}
    assert theirs["assent_bus_requests"].values == {}


def a_request(bus, request_id: str, progress: Progress, **columns: str) -> BusRequest:
    return BusRequest.objects.create(
        bus=bus.row, request_id=request_id, progress=progress, **columns
    )
