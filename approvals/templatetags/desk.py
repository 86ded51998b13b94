"""Template filters and tags of the desk: icons, tones, times, figures and texts."""

from __future__ import annotations

import json
from datetime import datetime, time
from functools import cache
from typing import Any
from uuid import UUID

from django import template
from django.conf import settings
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from a2a.models import Question, Task
from approvals.desk import Voters, Votes, policies, votes_of
from approvals.desk.inbox import Entry
from approvals.metrics import Metric
from approvals.presentation import (
    full_display,
    in_words,
    instant,
    labels,
    moment,
    number_written,
    shown_state,
    to_the_minute,
)
from ledger.contracts import results
from ledger.models import Event, Transaction
from ledger.states import FINAL

register = template.Library()

for text_filter in (
    policies.money,
    labels.plain,
    labels.event_label,
    labels.surface,
    labels.via,
    labels.outcome,
    labels.question_outcome,
    labels.undo_words,
    full_display.missing_texts,
    to_the_minute,
):
    register.filter(text_filter.__name__, text_filter)
register.simple_tag(moment)
register.simple_tag(instant)


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """A symbol of the sprite, which the page has within it; decorative unless it has a label."""
    if label:
        return format_html(
            '<svg class="icon" role="img" aria-label="{}"><use href="#icon-{}"/></svg>', label, name
        )
    return format_html('<svg class="icon" aria-hidden="true"><use href="#icon-{}"/></svg>', name)


@register.simple_tag
@cache
def icons() -> SafeString:
    """The sprite, once in each page: no request brings an icon, and none is lost without one."""
    sprite = (settings.BASE_DIR / "static" / "img" / "icons.svg").read_text()
    named = sprite.replace('<symbol id="', '<symbol id="icon-')
    return mark_safe(named.replace("<svg ", '<svg hidden aria-hidden="true" ', 1).strip())


@register.simple_tag
def votes_on(row: Transaction, entry: Entry, voters: Voters) -> Votes | None:
    """The dots of a row that takes several people; ``None`` for all other rows."""
    return votes_of(row, voters) if entry.is_waiting else None


@register.filter
def state_icon(row: Transaction | Task) -> str:
    return shown_state(row).icon


@register.filter
def tone(row: Transaction | Task) -> str:
    return shown_state(row).tone


@register.filter
def of(times: dict[UUID, datetime], key: UUID) -> datetime:
    return times[key]


@register.filter
def risk_icon(row: Transaction) -> str:
    return "shield-alert" if row.risk_level in {"HIGH", "CRITICAL"} else "shield"


@register.filter
def consequence_icon(row: Transaction) -> str:
    return "ban" if row.consequence_level == "IRREVERSIBLE" else "undo-2"


@register.filter
def question_id(event: Event) -> UUID | None:
    """The question that an event of a task asked, answered or let lapse."""
    return Question.named_in(json.loads(event.details))


@register.filter
def pretty(value: Any) -> str:
    """A value as people read it: text as it is, the rest as indented JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and len(value) == 1:
        (only,) = value.values()
        return pretty(only)
    return json.dumps(value, ensure_ascii=False, indent=2)


@register.filter
def folded(text: Any, is_whole: bool) -> str:
    """The text, shortened as on a folded page unless ``is_whole``."""
    desk, whole = full_display.SURFACES[full_display.DESK], str(text)
    lines = whole.split("\n")
    if is_whole or (len(whole) <= desk.part_most and len(lines) <= desk.lines_most):
        return whole
    return "\n".join(lines[: desk.lines_most])[: desk.part_most] + "…"


@register.filter
def first_line(text: str) -> str:
    """The first line only, so that an agent's further lines do not look like part of the page."""
    return str(text).strip().partition("\n")[0]


@register.filter
def further_lines(text: str) -> str:
    return str(text).strip().partition("\n")[2].strip()


@register.filter
def is_web_address(value: Any) -> bool:
    return bool(results.web_address(value))


@register.filter
def host_of(address: str) -> str:
    """The host that a link leads to, whatever its label; in ASCII if it mixes scripts (IDNA)."""
    host = results.host_of(str(address))
    try:
        return host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return host


@register.filter
def is_final(row: Transaction) -> bool:
    return row.state in FINAL


@register.filter
def span(seconds: float) -> str:
    """``900`` as ``15 min``."""
    for size, text in (
        (86_400, _("%(number)s d")),
        (3600, _("%(number)s h")),
        (60, _("%(number)s min")),
    ):
        if seconds >= size and seconds % size == 0:
            return text % {"number": f"{seconds / size:.0f}"}
    return _("%(number)s s") % {"number": f"{seconds:.0f}"}


@register.filter
def amount(metrics: dict[str, Metric], series: str) -> float:
    """``metrics|amount:"assent_transactions state=prepared"``."""
    name, _, label = series.partition(" ")
    key, _, value = label.partition("=")
    return metrics[name].of(**{key: value}) if name in metrics else 0.0


@register.filter
def figure(metrics: dict[str, Metric], series: str) -> int:
    return round(amount(metrics, series))


@register.filter
def rounded(seconds: float) -> str:
    """``0.004`` as ``4 ms``, ``75`` as ``75 s``, ``5400`` as ``1.5 h``."""
    if seconds >= 86_400:
        return _("%(number)s d") % {"number": _with_a_digit(seconds / 86_400)}
    if seconds >= 3600:
        return _("%(number)s h") % {"number": _with_a_digit(seconds / 3600)}
    if seconds >= 120:
        return _("%(number)s min") % {"number": f"{seconds / 60:.0f}"}
    if seconds >= 1:
        return _("%(number)s s") % {"number": number_written(seconds, 1)}
    return _("%(number)s ms") % {"number": f"{seconds * 1000:.0f}"}


def _with_a_digit(number: float) -> str:
    number = round(number, 1)
    return number_written(number, 0 if number.is_integer() else 1)


@register.filter
def time_of_day(value: Any) -> str:
    """``20:00``, as a field for a time takes it; text that somebody typed stays as it is."""
    return value.strftime("%H:%M") if isinstance(value, time) else str(value or "")


# The first that fits; browsers name others, too.
BROWSERS = (("Edg", "Edge"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)


@register.filter
def device(user_agent: str) -> str:
    """A browser's description of itself, in two words: "Firefox · Windows"."""
    words = [
        next((name for mark, name in known if mark in user_agent), "")
        for known in (BROWSERS, SYSTEMS)
    ]
    return " · ".join(word for word in words if word) or user_agent[:40] or "?"


@register.filter
def code_marked(text: str) -> SafeString:
    """A text of the API's document: what stands between backticks is code."""
    parts = [
        format_html("<code>{}</code>", part) if number % 2 else format_html("{}", part)
        for number, part in enumerate(text.split("`"))
    ]
    return mark_safe("".join(parts))


register.filter("in_language", in_words)
