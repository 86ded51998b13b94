"""A dashboard for Grafana, as its JSON model: what a person on call looks at first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from approvals.http.admission.request_log import REQUESTS

PER_ROW, WIDTH, HEIGHT = 3, 8, 7  # a row of Grafana's grid is 24 wide
RATE = f"rate({REQUESTS}_count[5m])"
FAILED = RATE.replace("[", '{status=~"5.."}[')
SOURCE = {"type": "prometheus", "uid": "${source}"}
# By row: title, unit, expression, the name of each line.
ROWS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "Is anything late?": (
        ("Open", "short", "assent_transactions", "{{state}}"),
        ("Waits longest for sign-off", "s", "assent_oldest_pending_seconds", "oldest"),
        ("Due work is late by", "s", "assent_sweeper_lag_seconds", "sweeper"),
        ("Signed off and not begun", "s", "assent_work_late_seconds", "{{queue}}"),
        ("Messages late by", "s", "assent_delivery_late_seconds", "{{channel}}"),
        ("Events under no checkpoint", "s", "assent_events_uncovered_seconds", "oldest"),
    ),
    "People": (
        ("From proposal to decision", "s", "assent_decision_seconds", "p{{quantile}}"),
        ("What became of requests", "short", "assent_events_recent", "{{kind}}"),
        ("Attempts to sign in", "cps", "rate(assent_sign_ins_total[5m])", "{{outcome}}"),
    ),
    "Tools": (
        (
            "Calls",
            "cps",
            "sum by (tool, outcome) (rate(assent_call_seconds_count[5m]))",
            "{{tool}} {{outcome}}",
        ),
        (
            "A call takes (p95)",
            "s",
            "histogram_quantile(0.95, sum by (le, tool) (rate(assent_call_seconds_bucket[5m])))",
            "{{tool}}",
        ),
        ("Tools that do not answer", "short", "assent_silent_addresses", "{{address}}"),
    ),
    "Processes": (
        ("Requests", "reqps", f"sum by (part) ({RATE})", "{{part}}"),
        (
            "A request takes (p95)",
            "s",
            f"histogram_quantile(0.95, sum by (le, part) (rate({REQUESTS}_bucket[5m])))",
            "{{part}}",
        ),
        (
            "Requests that failed",
            "reqps",
            f"sum by (part) ({FAILED})",
            "{{part}}",
        ),
        ("Processes that live", "short", "assent_processes", "{{kind}}"),
        ("Jobs in the queues", "short", "assent_queue_jobs", "{{queue}}"),
        ("Sessions of the database", "short", "assent_database_sessions", "{{process}}"),
    ),
}


def dashboard() -> dict[str, object]:
    """For *Dashboards → Import*; Grafana asks for the source of the data."""
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "title": "Assent",
        "uid": "assent",
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "schemaVersion": 39,
        "templating": {"list": [source]},
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, object]]:
    numbers, top = count(1), 0
    for title, figures in ROWS.items():
        place = {"h": 1, "w": PER_ROW * WIDTH, "x": 0, "y": top}
        yield {"id": next(numbers), "type": "row", "title": title, "gridPos": place, "panels": []}
        for index, (name, unit, expression, line) in enumerate(figures):
            row, column = divmod(index, PER_ROW)
            y = top + 1 + row * HEIGHT
            yield {
                "id": next(numbers),
                "type": "timeseries",
                "title": name,
                "datasource": SOURCE,
                "gridPos": {"h": HEIGHT, "w": WIDTH, "x": column * WIDTH, "y": y},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": "A", "datasource": SOURCE, "expr": expression, "legendFormat": line}
                ],
            }
        top += 1 + HEIGHT * -(-len(figures) // PER_ROW)
