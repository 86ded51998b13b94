"""The charts and sentences of the page Insight, from the counted figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import date, timedelta

from django.utils.translation import gettext as _, ngettext

from approvals.insight.charts import (
    Cell,
    Chart,
    Column,
    Series,
    grouped,
    plain,
    side_by_side,
    stacked,
    strip,
)
from approvals.presentation import day_of_month, span_of
from approvals.presentation.labels import title_of
from ledger.principals import Principal
from ledger.reporting.usage import OUTCOMES, wait_quantile_s
from ledger.reporting.usage.counting import FOLLOWED
from ledger.reporting.usage.figures import Pair, Reviewed, Times, decided, expired_share
from ledger.states import EventKind

MOST_ROWS = 20  # of a table that may have many
TONES = {
    EventKind.APPROVED: "good",
    EventKind.REJECTED: "bad",
    EventKind.EXPIRED: "soon",
    EventKind.CANCELED: "calm",
}
Names = Callable[[Iterable[str]], list[str]]


def _titles() -> dict[EventKind, str]:
    return {
        EventKind.APPROVED: _("approved"),
        EventKind.REJECTED: _("rejected"),
        EventKind.EXPIRED: _("expired"),
        EventKind.CANCELED: _("canceled"),
    }


def _series(counts: Counter[str]) -> list[Series]:
    return [Series(title, TONES[kind], grouped(counts[kind])) for kind, title in _titles().items()]


def _percent(share: float) -> str:
    return _("%(number)s %%") % {"number": round(100 * share)}


def _span(waits: Counter[int], fraction: float) -> Cell:
    seconds = wait_quantile_s(waits, fraction)
    return Cell("" if seconds is None else round(seconds, 1), span_of(seconds) or "–", True)  # noqa: RUF001


# --- sentences ---------------------------------------------------------------------------------


def sentences(times: Times, own: Counter[int]) -> list[str]:
    """Two sentences that say what the charts say; none where nothing was decided."""
    if not decided(times.outcomes):
        return []
    return [_how_fast(times, own), _how_often_too_late(times)]


def _how_fast(times: Times, own: Counter[int]) -> str:
    if own:
        return _("You decide in %(span)s.") % {"span": _span(own, 0.5).shown}
    if times.all_waits:
        return _("People decide in %(span)s.") % {"span": _span(times.all_waits, 0.5).shown}
    return _("No person decided anything.")


FEW = 20  # of so many cases nothing is said about hours


def _how_often_too_late(times: Times) -> str:
    if not times.outcomes[EventKind.EXPIRED]:
        return _("Nothing expired.")
    share = _percent(expired_share(times.outcomes))
    if times.outcomes[EventKind.EXPIRED] < FEW:
        return _("%(share)s expire.") % {"share": share}
    if (hours := _mostly(times)) is None:
        return _("%(share)s expire, at any time of the day.") % {"share": share}
    return _("%(share)s expire, mostly between %(begin)02d:00 and %(end)02d:00.") % {
        "share": share,
        "begin": hours,
        "end": (hours + 6) % 24,
    }


def _mostly(times: Times) -> int | None:
    """The first of the six hours in which more than half expires, if there are such."""
    expired = [times.by_hour[hour][EventKind.EXPIRED] for hour in range(24)]
    within = {begin: sum((expired + expired)[begin : begin + 6]) for begin in range(24)}
    begin = max(within, key=lambda hour: within[hour])
    return begin if 2 * within[begin] > sum(expired) else None


# --- charts ------------------------------------------------------------------------------------


def outcomes_chart(times: Times, days: int, today: date) -> Chart:
    """Decisions of each day, stacked by outcome."""
    dates = [today - timedelta(days=days - 1 - number) for number in range(days)]
    most = max((decided(times.by_day[day]) for day in dates), default=0)
    titles = _titles()
    columns = [
        [
            (
                times.by_day[day][kind],
                TONES[kind],
                f"{_day(day)}: {times.by_day[day][kind]} {title}",
            )
            for kind, title in titles.items()
        ]
        for day in dates
    ]
    asked = times.outcomes[EventKind.PREPARED]
    return Chart(
        "outcomes",
        _("What became of requests, by day"),
        ngettext(
            "%(asked)s request in %(days)s days. %(share)s of what was decided was approved.",
            "%(asked)s requests in %(days)s days. %(share)s of what was decided was approved.",
            asked,
        )
        % {"asked": grouped(asked), "days": days, "share": _approved_share(times.outcomes)},
        [
            Column("day", _("Day"), is_number=False),
            Column("asked", _("asked")),
            *(Column(kind.value, title) for kind, title in titles.items()),
        ],
        [
            [
                Cell(day.isoformat(), _day(day)),
                plain(times.by_day[day][EventKind.PREPARED]),
                *(plain(times.by_day[day][kind]) for kind in OUTCOMES),
            ]
            for day in dates
        ],
        series=_series(times.outcomes),
        bars=stacked(columns, most),
        most=grouped(most),
        places=[_day(dates[0]), _day(dates[len(dates) // 2]), _day(dates[-1])],
    )


def _approved_share(counts: Counter[str]) -> str:
    number = decided(counts)
    return _percent(counts[EventKind.APPROVED] / number if number else 0)


def _day(day: date) -> str:
    return day_of_month(day)


def waits_chart(times: Times) -> Chart:
    """Time that people took to decide, by hour of the day."""
    spans = {
        hour: (_span(times.waits[hour], 0.5), _span(times.waits[hour], 0.9)) for hour in range(24)
    }
    most = max([slow.value or 0.0 for _middle, slow in spans.values()])
    middle, slow = _("median"), _("nine of ten")
    columns = [
        [
            (late.value or 0.0, "pale", f"{hour:02d}:00: {slow} {late.shown}"),
            (half.value or 0.0, "accent", f"{hour:02d}:00: {middle} {half.shown}"),
        ]
        for hour, (half, late) in spans.items()
    ]
    waits = times.all_waits
    return Chart(
        "waits",
        _("How long people take to decide, by hour of the day"),
        _how_long(waits),
        [
            Column("hour", _("Hour"), is_number=False),
            Column("decided", _("decided")),
            Column("median_s", _("median")),
            Column("p90_s", _("nine of ten")),
        ],
        [
            [Cell(hour, f"{hour:02d}:00"), plain(times.waits[hour].total()), *spans[hour]]
            for hour in range(24)
        ],
        series=[Series(middle, "accent"), Series(slow, "pale")],
        bars=side_by_side(columns, most),
        most=span_of(most) if most else "",
        places=["00:00", "06:00", "12:00", "18:00", "24:00"],
    )


def expiry_chart(times: Times) -> Chart:
    """The share of each tool's requests that nobody decided in time."""
    tools = sorted(
        (tool for tool, counts in times.by_tool.items() if decided(counts)),
        key=lambda tool: (-expired_share(times.by_tool[tool]), tool),
    )[:MOST_ROWS]
    shares = {tool: expired_share(times.by_tool[tool]) for tool in tools}
    return Chart(
        "expiry",
        _("What expires, by tool"),
        _("The share of each tool's requests that nobody decided in time."),
        [
            Column("tool", _("Tool"), is_number=False),
            Column("ended", _("of")),
            Column("expired", _("expired")),
            Column("expired_percent", _("share")),
        ],
        [
            [
                Cell(tool, title_of(tool)),
                plain(decided(times.by_tool[tool])),
                plain(times.by_tool[tool][EventKind.EXPIRED]),
                Cell(round(100 * shares[tool], 1), _percent(shares[tool]), True),
            ]
            for tool in tools
        ],
        shares=[strip([(shares[tool], "soon", _percent(shares[tool]))], 1) for tool in tools],
    )


def _how_long(waits: Counter[int]) -> str:
    if not waits:
        return _("No person decided anything.")
    return _(
        "Half is decided in %(half)s, nine of ten in %(most)s. Hours are in your time zone."
    ) % {
        "half": _span(waits, 0.5).shown,
        "most": _span(waits, 0.9).shown,
    }


def pairs_chart(pairs: list[Pair], names: Names) -> Chart:
    """Agents and the people that they wait for, and how long."""
    people = [pair for pair in pairs if Principal.parse(pair.decider).is_user][:MOST_ROWS]
    agents = names(pair.agent for pair in people)
    deciders = names(pair.decider for pair in people)
    most = max((pair.decided for pair in people), default=0)
    return Chart(
        "waiting",
        _("Who waits for whom"),
        _("Which people decided for which agents, and how long the agents waited."),
        [
            Column("agent", _("Agent"), is_number=False),
            Column("decided_by", _("waits for"), is_number=False),
            Column("decisions", _("decisions")),
            Column("median_s", _("median")),
            Column("p90_s", _("nine of ten")),
        ],
        [
            [
                Cell(agent, agent),
                Cell(decider, decider),
                plain(pair.decided),
                _span(pair.waits, 0.5),
                _span(pair.waits, 0.9),
            ]
            for pair, agent, decider in zip(people, agents, deciders, strict=True)
        ],
        shares=[strip([(pair.decided, "accent", str(pair.decided))], most) for pair in people],
    )


def agents_chart(agents: dict[str, Counter[str]], names: Names) -> Chart:
    """Outcomes of each agent's requests."""
    most_first = sorted(agents, key=lambda agent: (-agents[agent][EventKind.PREPARED], agent))
    shown = most_first[:MOST_ROWS]
    titles = _titles()
    total = sum((agents[agent] for agent in shown), Counter[str]())
    return Chart(
        "agents",
        _("The agents' record"),
        _("What became of each agent's requests, and how many failed when they were carried out."),
        [
            Column("agent", _("Agent"), is_number=False),
            Column("asked", _("asked")),
            *(Column(kind.value, title) for kind, title in titles.items()),
            Column("failed", _("failed")),
        ],
        [
            [
                Cell(name, name),
                *(
                    plain(agents[agent][kind])
                    for kind in (EventKind.PREPARED, *OUTCOMES, EventKind.FAILED)
                ),
            ]
            for agent, name in zip(shown, names(shown), strict=True)
        ],
        series=_series(total),
        shares=[
            strip(
                [
                    (agents[agent][kind], TONES[kind], f"{agents[agent][kind]} {title}")
                    for kind, title in titles.items()
                ],
                decided(agents[agent]),
            )
            for agent in shown
        ],
    )


def supervisors_chart(pairs: list[Pair], reviewed: list[Reviewed], names: Names) -> Chart:
    """Supervising agents' decisions, and their advice; how often people agreed with either."""
    kinds: dict[str, Counter[str]] = {review.agent: Counter() for review in reviewed}
    advice: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        if Principal.parse(pair.decider).is_agent:
            advice[pair.decider] += pair.advice
            kinds[pair.decider] = kinds.get(pair.decider, Counter()) + pair.kinds
    opinions = {review.agent: (review.agreed, review.otherwise) for review in reviewed}
    shown = sorted(kinds)[:MOST_ROWS]
    return Chart(
        "supervisors",
        _("Supervising agents"),
        _(
            "What they decided or left to people, what people said of the reviewed part, and how"
            " often people decided as they advised."
        ),
        [
            Column("agent", _("Agent"), is_number=False),
            Column("approved", _("approved")),
            Column("rejected", _("rejected")),
            Column(EventKind.PASSED_ON.value, _("left to people")),
            Column("reviewed", _("reviewed")),
            Column("agreed_percent", _("people agreed")),
            Column("overridden_percent", _("would have decided otherwise")),
            Column("advised", _("advised")),
            Column("followed", _("people decided the same")),
        ],
        [
            [
                Cell(name, name),
                plain(kinds[agent][EventKind.APPROVED] + kinds[agent][EventKind.APPROVAL_RECORDED]),
                plain(kinds[agent][EventKind.REJECTED]),
                plain(kinds[agent][EventKind.PASSED_ON]),
                *_reviews(*opinions.get(agent, (0, 0))),
                plain(advice[agent].total()),
                plain(advice[agent][FOLLOWED]),
            ]
            for agent, name in zip(shown, names(shown), strict=True)
        ],
        shares=[
            strip(
                [
                    (opinions.get(agent, (0, 0))[0], "good", _("people agreed")),
                    (opinions.get(agent, (0, 0))[1], "bad", _("would have decided otherwise")),
                ],
                sum(opinions.get(agent, (0, 0))),
            )
            for agent in shown
        ],
    )


def _reviews(agreed: int, otherwise: int) -> list[Cell]:
    number = agreed + otherwise
    if not number:
        return [plain(0), Cell("", "–", True), Cell("", "–", True)]  # noqa: RUF001
    return [
        plain(number),
        Cell(round(100 * agreed / number, 1), _percent(agreed / number), True),
        Cell(round(100 * otherwise / number, 1), _percent(otherwise / number), True),
    ]


# --- only for oneself ---------------------------------------------------------------------------


def own_waits(own: list[Pair]) -> Counter[int]:
    """Time that this person took, over all agents."""
    return sum((pair.waits for pair in own), Counter[int]())


def quick_sentence(quick: int, approvals: int) -> str:
    """The share that they approved faster than anybody can read; empty for who approved none."""
    if not approvals:
        return ""
    return ngettext(
        "%(quick)s of your %(number)s approval came within 3 seconds of opening the item.",
        "%(quick)s of your %(number)s approvals came within 3 seconds of opening the item.",
        approvals,
    ) % {"quick": grouped(quick), "number": grouped(approvals)}
