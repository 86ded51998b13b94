"""``manage.py createsuperuser``: Django's own, recorded as a change of accounts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User
from django.db.transaction import atomic

from approvals.people import accounts
from ledger.events import command_principal
from ledger.principals import Surface


class Command(createsuperuser.Command):
    """Django's own, recorded: it is how the very first operator is made."""

    def handle(self, *args: Any, **options: Any) -> Any:
        with atomic():
            known = set(User.objects.values_list("pk", flat=True))
            answer = super().handle(*args, **options)
            for person in User.objects.exclude(pk__in=known):
                accounts.opened(person, by=command_principal(), via=Surface.COMMAND)
        return answer
