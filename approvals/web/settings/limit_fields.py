"""The limits of an agent or a tenant, as fields of its form: empty for the default."""

from __future__ import annotations

from typing import Any

from django import forms

from ledger import limits
from ledger.limits import MEANINGS, SETTABLE, Limit, Of


def name_of(limit: Limit) -> str:
    return f"limit_{limit}"


def limit_named(field: str) -> str:
    """The limit that a field of this name sets; empty for other fields."""
    limit = field.removeprefix("limit_")
    return limit if limit != field else ""


NAMES = tuple(name_of(limit) for limit in SETTABLE)


def _field(limit: Limit) -> forms.IntegerField:
    return forms.IntegerField(
        required=False,
        min_value=1,
        max_value=limits.MOST,
        label=MEANINGS[limit].unit.capitalize(),
    )


_FIELDS = {name_of(limit): _field(limit) for limit in SETTABLE}
LimitFields: Any = type("LimitFields", (forms.Form,), dict(_FIELDS))


class WithLimits(forms.ModelForm, LimitFields):  # type: ignore[misc, type-arg]
    """A form of a row with the column ``limits``; ``limits_of`` says of whom they are."""

    limits_of: Of

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for limit in SETTABLE:
            field = self.fields.get(name_of(limit))
            if field is not None:
                default = limits.default(limit, self.limits_of)
                field.widget.attrs["placeholder"] = f"{default:,}"
                self.initial[name_of(limit)] = self.instance.limits.get(limit)

    @property
    def limit_fields(self) -> list[Any]:
        return [self[name] for name in NAMES]

    def clean(self) -> Any:
        fields = super().clean() or self.cleaned_data
        numbers = {limit: fields.get(name_of(limit)) for limit in SETTABLE}
        self.instance.limits = {
            str(limit): number for limit, number in numbers.items() if number is not None
        }
        return fields
