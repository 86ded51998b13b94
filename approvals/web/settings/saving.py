"""Saving the columns that a person changed in a form; the caller seals it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ledger.events import edits_between

NOT_SHOWN = ["not shown", "another, not shown"]


def set_changed(row: Any, form: Any, *, but: Collection[str] = ()) -> dict[str, list[Any]]:
    """Save what this person changed, and nothing that somebody else did meanwhile.

    Call it with the row locked; ``but`` are fields that are no columns. Returns the edits, as an
    event keeps them.
    """
    wanted = {name: form.cleaned_data[name] for name in form.changed_data if name not in but}
    before = {name: getattr(row, name) for name in wanted}
    for name, value in wanted.items():
        setattr(row, name, value)
    if wanted:
        row.save(update_fields=list(wanted))
    return edits_between(before, wanted)


def edits_of_new(form: Any) -> dict[str, list[Any]]:
    """The entries for a new row that differ from what the form began with."""
    wanted = {name: _plain(form.cleaned_data[name]) for name in form.changed_data}
    return edits_between(
        {name: form.get_initial_for_field(form.fields[name], name) for name in wanted}, wanted
    )


def _plain(value: Any) -> Any:
    """A related row by its key."""
    return getattr(value, "pk", value)


def saves_changes_only(form: Any) -> None:
    """Each field carries what it was when the page was made."""
    for field in form.fields.values():
        field.show_hidden_initial = True
