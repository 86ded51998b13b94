"""JSON in a form, if it can be stored and sealed as it is."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext as _

from ledger.seals import is_sealable

LARGEST = 100_000  # characters


class KeptJSONField(forms.JSONField):
    def prepare_value(self, value: Any) -> Any:
        """Indented; what is not there is empty, and not ``null``."""
        if isinstance(value, InvalidJSONInput):
            return value
        return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and (len(value) > LARGEST or not _is_kept(value)):
            raise ValidationError(_("This is not JSON that can be kept."))
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        if isinstance(data, str) and not _is_kept(data):
            return InvalidJSONInput(data)
        return super().bound_data(data, initial)


def _is_kept(text: str) -> bool:
    """True also for what is no JSON at all: the field itself says that."""
    try:
        return is_sealable(json.loads(text))
    except json.JSONDecodeError:
        return True
    except (ValueError, RecursionError):
        return False
