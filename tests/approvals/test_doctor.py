"""`manage.py doctor`, and the alarms that it looks at."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command
from redis import ConnectionPool

from approvals import metrics
from approvals.metrics import ALARMS, rule_file
from approvals.metrics.alarms import Alarm
from approvals.metrics.metric import Metric
from ledger.foundation import doorbell
from tests.processes import ROOT

pytestmark = pytest.mark.django_db


def said() -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("doctor", stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def test_it_says_what_is_wrong_and_the_mend():
    code, text = said()

    assert code == 1
    assert "ok     database: PostgreSQL" in text
    assert "wrong  at work: no sweeper runs" in text
    assert "start one" in text


def test_it_goes_on_without_redis(settings):
    settings.REDIS_POOL = ConnectionPool.from_url("redis://127.0.0.1:1/0")
    doorbell.redis.cache_clear()
    try:
        _code, text = said()
    finally:
        doorbell.redis.cache_clear()

    assert "wrong  redis: it does not answer" in text
    assert "ok     database" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ASSENT_BLOCKING_SEND_S", "s3cr3t"),
        ("DATABASE_URL", "postgres://me:s3cr3t/x@host/assent"),
        ("REDIS_URL", "redis://:s3cr3t/x@host:6379/0"),
        ("ASSENT_LOG_LEVEL", "s3cr3t"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named_and_not_shown(name, value):
    environment = {**os.environ, name: value}
    ended = subprocess.run(
        [sys.executable, "manage.py", "doctor"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 1
    assert name.removeprefix("ASSENT_") in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "s3cr3t" not in ended.stdout + ended.stderr


COUNTED = {"assent_http_request_seconds", "assent_sign_ins", "assent_call_seconds"}


def figures_in(texts: Iterable[str]) -> set[str]:
    """The metrics that expressions of PromQL are about."""
    names = set(re.findall(r"assent_[a-z_]+", " ".join(texts)))
    return {re.sub(r"_(total|count|bucket)$", "", name) for name in names}


@pytest.mark.of_app("a2a.doors.git_bus")
def test_each_alarm_is_about_a_figure_that_there_is():
    there_are = COUNTED | set(metrics.gathered())

    assert {alarm.metric for alarm in ALARMS} <= there_are
    assert figures_in(alarm.expression for alarm in ALARMS) <= there_are
    assert len({alarm.name for alarm in ALARMS}) == len(ALARMS)


def test_each_panel_of_the_dashboard_is_about_a_figure_that_there_is():
    panels = [panel for panel in metrics.dashboard()["panels"] if panel["type"] != "row"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]

    assert figures_in(expressions) <= COUNTED | set(metrics.gathered())
    assert len(expressions) == len(panels)


def test_panels_of_the_dashboard_do_not_overlap():
    places = [panel["gridPos"] for panel in metrics.dashboard()["panels"]]
    cells = [
        (place["x"] + x, place["y"] + y)
        for place in places
        for x in range(place["w"])
        for y in range(place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus)")
def test_prometheus_reads_the_rules_and_raises_the_alarms_that_they_promise():
    checked = subprocess.run(
        ["promtool", "test", "rules", str(Path(__file__).parent / "alarms.test.yaml")],
        capture_output=True,
        text=True,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


OF_WEB = {"below": 1.0, "labels": {"kind": "web"}}


@pytest.mark.parametrize(
    ("limit", "values", "is_on"),
    [
        ({"above": 10.0}, {(): 11.0}, True),
        ({"above": 10.0}, {(): 10.0}, False),
        ({"above": 10.0}, {}, False),
        (OF_WEB, {}, True),
        (OF_WEB, {(("kind", "bus"),): 1.0}, True),
        (OF_WEB, {(("kind", "web"),): 1.0}, False),
        ({"rises_in": "10m"}, {(): 5.0}, False),
    ],
)
def test_an_alarm_is_on(limit, values, is_on):
    alarm = Alarm("Name", "what", "figure", "mend", **limit)

    assert alarm.is_on({"figure": Metric("figure", "", values)}) is is_on


def test_the_file_of_rules_is_what_prometheus_reads():
    rules = yaml.safe_load(yaml.safe_dump(rule_file()))["groups"][0]["rules"]

    expressions = {rule["alert"]: rule["expr"] for rule in rules}
    assert len(expressions) == len(rules) == len(ALARMS) + 1
    assert expressions["AssentWorkerMissing"] == (
        'absent(assent_processes{kind="worker"}) or assent_processes{kind="worker"} < 1'
    )
    assert expressions["AssentMessagesGivenUp"] == (
        'delta(assent_deliveries{state="given_up"}[10m]) > 0'
    )
