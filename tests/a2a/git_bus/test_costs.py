"""What a task cost goes along with its answer, in both directions."""

from __future__ import annotations

import pytest

from tests.a2a.test_costs import COST, end

pytestmark = pytest.mark.django_db


def test_on_a_git_bus_it_is_in_the_metadata_of_the_answer(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    participant.answer(bus.sent(task), result={"text": "Tea."}, metadata={"cost": COST})
    bus.turn()

    task.refresh_from_db()
    assert (task.state, task.cost) == ("completed", COST)


def test_ours_says_so_too(bus, participant, as_worker):
    participant.submit("r-1")
    bus.turn()
    end(as_worker, cost=COST)
    bus.turn()

    assert bus.response("r-1")["metadata"] == {"cost": COST}
