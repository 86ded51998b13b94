"""One form from a JSON Schema: its fields, and the values that fill them and come back."""

from approvals.presentation.forms.fields import Node, answer_form, form_of
from approvals.presentation.forms.values import (
    place_misfits,
    read_form,
    show_defaults,
    show_value,
    taken_from,
)

__all__ = [
    "Node",
    "answer_form",
    "form_of",
    "place_misfits",
    "read_form",
    "show_defaults",
    "show_value",
    "taken_from",
]
