"""Edits in the admin append sealed events, in the same database transaction."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.admin import ModelAdmin
from django.db.models import Model, QuerySet
from django.db.transaction import atomic
from django.http import HttpRequest

from ledger import principals
from ledger.events import edits_between, record_change
from ledger.principals import Principal, Surface

VIA = Surface.ADMIN


def principal_of(request: HttpRequest) -> Principal:
    person: Any = request.user
    return principals.user(person.pk, person.get_full_name() or person.get_username())


class SealedEdits(ModelAdmin):
    """Adding, changing and removing rows appends ``<sealed_as>_added`` and so on."""

    sealed_as: ClassVar[str]
    # Fields of which only that they changed is written down.
    secrets: ClassVar[frozenset[str]] = frozenset()

    def subject_of(self, row: Any) -> str:
        return f"{self.sealed_as}:{row.pk}"

    def tenant_slug_of(self, row: Any) -> str:
        return str(row.tenant_id)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if edits := self.edits_of(form):
            self.seal(request, form.instance, edits, is_new=not change)

    def edits_of(self, form: Any) -> dict[str, list[Any]]:
        before = {name: _plain(form.initial.get(name)) for name in form.changed_data}
        after = {name: _plain(form.cleaned_data.get(name)) for name in form.changed_data}
        for name in self.secrets & after.keys():
            before[name], after[name] = "not shown", "another, not shown"
        return edits_between(before, after)

    def seal(
        self, request: HttpRequest, row: Any, edits: dict[str, list[Any]], *, is_new: bool
    ) -> None:
        self._record(request, row, f"{self.sealed_as}_{'added' if is_new else 'changed'}", edits)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with atomic():
            self._record(request, obj, f"{self.sealed_as}_removed", {})
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        with atomic():
            for row in queryset:
                self.delete_model(request, row)

    def _record(self, request: HttpRequest, row: Model, kind: str, edits: dict[str, Any]) -> None:
        record_change(
            self.subject_of(row),
            kind,
            tenant=self.tenant_slug_of(row),
            by=principal_of(request),
            via=VIA,
            name=str(row)[:200],
            details={"edits": edits} if edits else {},
        )


def _plain(value: Any) -> Any:
    """A related row by its key, several as a list of keys."""
    if isinstance(value, Model):
        return value.pk
    if isinstance(value, QuerySet | list | tuple):
        return [_plain(item) for item in value]
    return value
