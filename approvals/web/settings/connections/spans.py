"""A length of time as a form asks for it: a number, and its unit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _, gettext_lazy

UNITS = {
    86_400: gettext_lazy("days"),
    3_600: gettext_lazy("hours"),
    60: gettext_lazy("minutes"),
    1: gettext_lazy("seconds"),
}
LONGEST = timedelta(days=100 * 365)


class SpanInput(forms.MultiWidget):
    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        number = forms.NumberInput(attrs={"min": "0", "step": "any"})
        unit = forms.Select(choices=list(UNITS.items()), attrs={"aria-label": gettext_lazy("unit")})
        super().__init__([number, unit], attrs)

    def decompress(self, value: Any) -> list[Any]:
        if not value:
            return [None, 60]
        seconds = float(value)
        unit = next((unit for unit in UNITS if seconds % unit == 0), 1)
        number = seconds / unit
        return [int(number) if number.is_integer() else number, unit]

    def id_for_label(self, id_: str) -> str:
        return f"{id_}_0" if id_ else ""


class SpanField(forms.Field):
    """A ``timedelta`` that is longer than nothing; ``None`` where the field is empty."""

    widget = SpanInput

    def prepare_value(self, value: Any) -> Any:
        return value.total_seconds() if isinstance(value, timedelta) else value

    def to_python(self, value: Any) -> timedelta | None:
        if isinstance(value, timedelta):
            return value
        # The hidden initial value is in seconds.
        number, unit = value if isinstance(value, list) else (value, 1)
        if number in (None, ""):
            return None
        span = _span(number, unit)
        if span is None:
            raise ValidationError(_("Write a number."))
        if not timedelta(0) < span <= LONGEST:
            raise ValidationError(_("It has to be longer than nothing, and no century."))
        return span


def _span(number: Any, unit: Any) -> timedelta | None:
    """``None`` for what is no number of an offered unit."""
    units = {str(each): each for each in UNITS}
    try:
        return timedelta(seconds=float(number) * units[str(unit)])
    except OverflowError:
        return timedelta.max
    except (KeyError, TypeError, ValueError):
        return None
