"""The sentences of the rooms below, in the language of who reads them.

The rooms below say everything in English and know no language: it may be sealed, stored or read by
machines. What they say as a ``Sentence`` is translated here, when a page shows it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import models
from django.utils.translation import gettext as _

from a2a.errors import AnswerInvalid
from approvals.presentation.amounts import number_written
from ledger.errors import LedgerError, Sentence, kept


def in_words(text: str) -> str:
    """The sentence, translated; any other text, as that of an agent or a tool, stays as it is."""
    if not isinstance(text, Sentence):
        return text
    template = _(text.template) if text.template else ""
    values = {name: _value(value) for name, value in text.values.items()}
    return template.format(**values) if values else template


def kept_in_words(row: models.Model, name: str) -> str:
    """The text in this column: a standard reason translated, what somebody wrote as it is."""
    return in_words(kept(row, name))


def _value(value: Any) -> str:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return number_written(value)
    return in_words(value) if isinstance(value, str) else str(value)


def refusal_in_words(refusal: LedgerError) -> str:
    """Why it was refused, for people."""
    if isinstance(refusal, AnswerInvalid) and (errors := refusal.extra.get("errors")):
        return " ".join(_misfit(error) for error in errors)
    return in_words(refusal.detail)


def refusal_and_hint(refusal: LedgerError) -> str:
    """As ``refusal_in_words``, and what to do next."""
    return f"{refusal_in_words(refusal)} {in_words(refusal.hint)}".strip()


def _misfit(error: dict[str, str]) -> str:
    message = in_words(error["message"])
    return f"{error['field']}: {message}" if error["field"] else message
