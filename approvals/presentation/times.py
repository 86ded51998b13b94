"""Times as people say them, in the reader's language, time zone and formats; scripts keep them
current."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from babel.dates import format_skeleton, format_time
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from approvals.presentation.amounts import chosen_locale, number_written


def moment(at: datetime | None, counts_down: bool = False) -> SafeString | str:
    """A time relative to now, with the exact instant on hover; clock.js keeps it current."""
    if at is None:
        return ""
    now = timezone.now()
    text = left(at - now) if counts_down else ago(now - at)
    return _time(at, "until" if counts_down else "since", text)


def instant(at: datetime | None) -> SafeString | str:
    """An absolute time, with its day unless that is today; clock.js writes it in the zone and the
    formats of the reader."""
    return "" if at is None else _time(at, "at", absolute(at))


def _time(at: datetime, kind: str, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}" data-{}>{}</time>', at.isoformat(), exact(at), kind, text
    )


def to_the_minute(at: datetime) -> str:
    """``21:32`` for a time of today, else ``Fri 14 Nov, 21:32``; with the year if another."""
    local = timezone.localtime(at)
    if local.date() != timezone.localdate():
        return absolute(at)
    locale = chosen_locale()
    return format_time(local, "short", locale=locale) if locale else local.strftime("%H:%M")


def absolute(at: datetime) -> str:
    """``21:32:54`` for a time of today, else ``Fri 14 Nov, 21:32``; with the year if another."""
    local, today = timezone.localtime(at), timezone.localtime()
    is_today, is_this_year = local.date() == today.date(), local.year == today.year
    if locale := chosen_locale():  # as static/js/clock.js writes it
        if is_today:
            return format_time(local, "medium", locale=locale)
        day = format_skeleton("MMMEd" if is_this_year else "yMMMEd", local, locale=locale)
        return f"{day}, {format_time(local, 'short', locale=locale)}"
    if is_today:
        return local.strftime("%H:%M:%S")
    year = "" if is_this_year else " Y"
    return formats.date_format(local, f"D j M{year}, H:i")


def day_of_month(day: date) -> str:
    """``November 14``, in the formats of the reader."""
    if locale := chosen_locale():
        return format_skeleton("MMMMd", day, locale=locale)
    return formats.date_format(day, "MONTH_DAY_FORMAT")


def exact(at: datetime) -> str:
    """The instant in the active time zone with its name, and in UTC."""
    local, utc = timezone.localtime(at), at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    zone = str(local.tzinfo)
    return utc if zone == "UTC" else f"{local:%Y-%m-%d %H:%M:%S} {zone} · {utc}"


def left(span: timedelta) -> str:
    """``13:31 left``; hours and minutes from an hour on, days and hours from two days on."""
    seconds = int(span.total_seconds())
    if seconds <= 0:
        return _("time is up")
    if seconds < 3600:
        minutes = f"{seconds // 60}:{seconds % 60:02d}"
        return _("{minutes} left").format(minutes=minutes)
    if seconds >= 172_800:
        days, hours = divmod(seconds // 3600, 24)
        return _("{days} d {hours} h left").format(days=days, hours=hours)
    minutes = f"{seconds % 3600 // 60:02d}"
    return _("{hours} h {minutes} left").format(hours=seconds // 3600, minutes=minutes)


def ago(span: timedelta) -> str:
    """``3 min ago``; within the first minute ``just now``."""
    seconds = int(span.total_seconds())
    if seconds < 60:
        return _("just now")
    if seconds < 3600:
        return _("{count} min ago").format(count=seconds // 60)
    if seconds < 86_400:
        return _("{count} h ago").format(count=seconds // 3600)
    return _("{count} d ago").format(count=seconds // 86_400)


def span_of(seconds: float | None) -> str:
    """``8 s``, ``2.2 min``, ``1.5 h``; empty of nothing."""
    if seconds is None:
        return ""
    if seconds < 59.5:
        return _("%(number)s s") % {"number": round(seconds)}
    if seconds < 3570:
        return _("%(number)s min") % {"number": _one_digit(seconds / 60)}
    if seconds < 86_400:
        return _("%(number)s h") % {"number": _one_digit(seconds / 3600)}
    return _("%(number)s d") % {"number": _one_digit(seconds / 86_400)}


def _one_digit(number: float) -> str:
    number = round(number, 1 if number < 10 else 0)
    return number_written(number, 0 if number.is_integer() else 1)


def length(seconds: float) -> str:
    """``2 s``, ``4 min``, ``3 h``, ``5 d``: a length of time, rounded."""
    if seconds < 90:
        return _("{count} s").format(count=max(1, round(seconds)))
    if seconds < 90 * 60:
        return _("{count} min").format(count=round(seconds / 60))
    if seconds < 36 * 3600:
        return _("{count} h").format(count=round(seconds / 3600))
    return _("{count} d").format(count=round(seconds / 86_400))
