"""Filters and searches of the ledger admin's lists, as a saved view keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.admin import ModelAdmin, site
from django.contrib.admin.views.main import SEARCH_VAR
from django.http import QueryDict
from django.urls import reverse

from ledger.admin.base import StrictLookups

LIST = "list"  # within the kept query: the list that it belongs to


def name_of(options: Any) -> str:
    """The name of the list of a model, as its address has it."""
    return f"{options.app_label}_{options.model_name}"


def clean(query: Mapping[str, Any]) -> str:
    """The list, and what it filters or searches by; empty without either."""
    name = str(query.get(LIST, ""))
    lister = _lists().get(name)
    if lister is None:
        return ""
    values = {
        key: str(value)
        for key, value in sorted(query.items())
        if value and _is_offered(lister, key, str(value))
    }
    return _written({LIST: name, **values}) if values else ""


def _is_offered(lister: ModelAdmin[Any], key: str, value: str) -> bool:
    if key == SEARCH_VAR:
        return bool(lister.search_fields)
    return key != LIST and isinstance(lister, StrictLookups) and lister.lookup_allowed(key, value)


def address_of(query: str) -> str:
    """Of the list with this query; the index where there is none."""
    values = QueryDict(query).dict()
    name = values.pop(LIST, "")
    if name not in _lists():
        return reverse("admin:index")
    page = reverse(f"admin:{name}_changelist")
    return f"{page}?{_written(values)}" if values else page


def _lists() -> dict[str, ModelAdmin[Any]]:
    return {name_of(model._meta): lister for model, lister in site._registry.items()}


def _written(values: Mapping[str, Any]) -> str:
    written = QueryDict(mutable=True)
    written.update(values)
    return written.urlencode()
