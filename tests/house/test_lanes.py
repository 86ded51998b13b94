"""The table of lanes in the documentation is the one in the code."""

from __future__ import annotations

import math
import re
import threading

from django.conf import settings

from a2a.doors.git_bus.turns import Turns
from approvals import asgi
from approvals.slack.interactions import deadlines
from ledger.delivery.couriers import _Round
from ledger.foundation import lanes
from ledger.proof.log.keeper import Keeper
from ledger.workers import Calls, Sweeper
from tests.house.source import ROOT

ROW = re.compile(r"^\| `([^`]+)` \|" + r" ([\d.\u2013]+) \|" * 5, re.MULTILINE)


def test_the_table_of_lanes_is_the_one_in_the_code():
    assert asgi.application
    assert deadlines.READS
    of_other_processes = [Turns(), Keeper(), _Round(threading.Event()), Sweeper()]
    of_other_processes.append(Calls(settings.CALL_THREADS))
    text = (ROOT / "docs" / "decisions" / "lanes.md").read_text()

    documented = {name: [number(cell) for cell in cells] for name, *cells in ROW.findall(text)}

    assert len(of_other_processes) == 5
    assert documented == {
        name: [
            lane.threads,
            lane.most_of_one,
            lane.most_waiting,
            lane.most_waiting_of_one,
            lane.within or math.inf,
        ]
        for name, lane in lanes.every.items()
        if name != "test"
    }


def number(cell: str) -> float:
    return math.inf if cell == "\u2013" else float(cell)
