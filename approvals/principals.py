"""From a signed-in person to the principal that the ledger records."""

from __future__ import annotations

from django.contrib.auth.models import User

from ledger import principals
from ledger.principals import Principal


def principal_of(user: User) -> Principal:
    return principals.user(user.get_username(), user.get_full_name())
