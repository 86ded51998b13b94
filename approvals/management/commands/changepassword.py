"""``manage.py changepassword``: Django's own, recorded as a change of accounts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User
from django.db.transaction import atomic

from approvals.people import accounts
from ledger.events import command_principal
from ledger.principals import Surface


class Command(changepassword.Command):
    """Django's own, recorded; the person is told."""

    def handle(self, *args: Any, **options: Any) -> Any:
        with atomic():
            before = dict(User.objects.values_list("pk", "password"))
            answer = super().handle(*args, **options)
            for person in User.objects.filter(pk__in=before):
                if person.password != before[person.pk]:
                    accounts.password_was_set(person, by=command_principal(), via=Surface.COMMAND)
        return answer
