"""Figures worth an alarm: for Prometheus as a file of rules, and for ``manage.py doctor``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from approvals.http.admission.request_log import REQUESTS
from approvals.metrics.metric import Metric


@dataclass(frozen=True, slots=True)
class Alarm:
    """A metric that is above its limit, below it, or rises in a time such as ``10m``.

    ``minutes`` is how long it has to be so; ``doctor`` does not wait. ``promql`` is for what takes
    more to say; ``doctor``, which looks once, leaves it to Prometheus.
    """

    name: str
    wrong: str
    metric: str
    mend: str
    above: float = 0.0
    below: float | None = None
    rises_in: str = ""
    minutes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    is_grave: bool = True
    promql: str = ""

    @property
    def expression(self) -> str:
        """In PromQL. What is missing altogether has no sample."""
        if self.promql:
            return self.promql
        chosen = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        series = f"{self.metric}{{{chosen}}}" if chosen else self.metric
        if self.rises_in:
            return f"delta({series}[{self.rises_in}]) > 0"
        if self.below is not None:
            return f"absent({series}) or {series} < {self.below:g}"
        return f"{series} > {self.above:g}"

    def is_on(self, metrics: Mapping[str, Metric]) -> bool:
        """Of what rises this says nothing: it takes two looks."""
        if self.rises_in or self.promql:
            return False
        values = metrics[self.metric].values if self.metric in metrics else {}
        wanted = self.labels.items()
        chosen = [value for labels, value in values.items() if wanted <= dict(labels).items()]
        if self.below is not None:
            return not chosen or min(chosen) < self.below
        return max(chosen, default=0.0) > self.above


def _missing(kind: str) -> Alarm:
    return Alarm(
        f"Assent{kind.capitalize()}Missing",
        f"no {kind} runs",
        "assent_processes",
        "start one; without Redis nobody is seen",
        below=1,
        minutes=1,
        labels={"kind": kind},
    )


ANSWERED = f"sum(rate({REQUESTS}_count[5m]))"
FAILED = ANSWERED.replace("[", '{status=~"5.."}[')

ALARMS = (
    Alarm(
        "AssentSweeperSilent",
        "nobody sweeps",
        "assent_sweeper_silent_seconds",
        "start a sweeper",
        above=10,
    ),
    Alarm(
        "AssentSweeperLate",
        "due work is late",
        "assent_sweeper_lag_seconds",
        "look at the couriers, the sweeper's log, Redis",
        above=30,
    ),
    Alarm(
        "AssentWorkLate",
        "signed off, and nobody begins it",
        "assent_work_late_seconds",
        "start workers; has any of them the tool?",
        above=30,
    ),
    *(_missing(kind) for kind in ("web", "worker", "courier", "sweeper")),
    Alarm(
        "AssentGitBusFailing",
        "a git bus is out of reach",
        "assent_bus_failing",
        "see Git buses on /ops/",
        minutes=10,
        is_grave=False,
    ),
    Alarm(
        "AssentMcpServerFailing",
        "an MCP server is out of reach",
        "assent_mcp_server_failing",
        "Settings → Tools says why, at MCP servers",
        minutes=15,
        is_grave=False,
    ),
    Alarm(
        "AssentHttpToolFailing",
        "the service of a tool is out of reach",
        "assent_http_tool_failing",
        "Settings → Tools says why, at the tool",
        minutes=15,
        is_grave=False,
    ),
    Alarm(
        "AssentToolSilent",
        "a service of a tool hangs",
        "assent_silent_addresses",
        "Tools that do not answer on /ops/ says which, and since when",
        minutes=5,
    ),
    Alarm(
        "AssentBusRequestNeedsPerson",
        "a request of a git bus needs a person",
        "assent_bus_requests",
        "see docs/git-bus.md",
        labels={"progress": "problem"},
        is_grave=False,
    ),
    Alarm(
        "AssentInDoubt",
        "a transaction is in doubt",
        "assent_transactions",
        "settle it on the desk",
        minutes=5,
        labels={"state": "in_doubt"},
    ),
    *(
        Alarm(
            f"Assent{name}Stuck",
            f"{state.replace('_', ' ')} does not end",
            "assent_transactions",
            "look at the owner's system",
            minutes=10,
            labels={"state": state},
        )
        for name, state in (("RollBack", "rolling_back"), ("Compensation", "compensating"))
    ),
    Alarm(
        "AssentMessagesGivenUp",
        "messages were given up",
        "assent_deliveries",
        "see /ops/",
        rises_in="10m",
        labels={"state": "given_up"},
    ),
    Alarm(
        "AssentLogUnsigned",
        "the log is not signed",
        "assent_events_uncovered_seconds",
        "look for `No checkpoint is signed` in the sweeper's log",
        above=300,
    ),
    Alarm(
        "AssentSiemBehind",
        "the SIEM does not get the log",
        "assent_siem_behind_seconds",
        "look for `the SIEM` in the couriers' log",
        above=300,
        is_grave=False,
    ),
    Alarm(
        "AssentRowHeld",
        "a row does not verify, if no operator placed a hold",
        "assent_retention",
        "run `manage.py verify_ledger`",
        rises_in="1h",
        labels={"state": "held"},
    ),
    Alarm(
        "AssentServerErrors",
        "one request of a hundred fails",
        REQUESTS,
        "look for ERROR in the log of the web processes, by request_id",
        minutes=5,
        promql=f"{FAILED} / {ANSWERED} > 0.01",
    ),
    Alarm(
        "AssentSignInsBlocked",
        "somebody tries passwords",
        "assent_sign_ins",
        "Record → People and set-up says whose account; the log of your proxy has the addresses",
        is_grave=False,
        promql='increase(assent_sign_ins_total{outcome="blocked"}[10m]) > 20',
    ),
    Alarm(
        "AssentDatabaseSessionsFull",
        "nearly every session of the database is taken",
        "assent_database_sessions",
        "see docs/scaling.md: fewer processes, or more sessions",
        minutes=5,
        promql="sum(assent_database_sessions) / max(assent_database_sessions_allowed) > 0.9",
    ),
)


def rule_file() -> dict[str, object]:
    """As Prometheus reads it from YAML."""
    down = {
        "alert": "AssentDown",
        "expr": 'up{job="assent"} == 0',
        "for": "1m",
        "labels": {"severity": "critical"},
        "annotations": {
            "summary": "nothing answers",
            "description": "/readyz says why",
        },
    }
    return {"groups": [{"name": "assent", "rules": [down, *map(_rule, ALARMS)]}]}


def _rule(alarm: Alarm) -> dict[str, object]:
    return {
        "alert": alarm.name,
        "expr": alarm.expression,
        **({"for": f"{alarm.minutes}m"} if alarm.minutes else {}),
        "labels": {"severity": "critical" if alarm.is_grave else "warning"},
        "annotations": {"summary": alarm.wrong, "description": alarm.mend},
    }
