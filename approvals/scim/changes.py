"""The directory as a principal, and its kind of change beside those of accounts and roles."""

from __future__ import annotations

from typing import Any

from django.db.models import TextChoices

from ledger.errors import Sentence
from ledger.principals import Surface, system

DIRECTORY = system("scim", "Directory")
ORIGIN: dict[str, Any] = {"by": DIRECTORY, "via": Surface("scim")}


class DirectoryChange(TextChoices):
    """The value never changes: it is sealed."""

    ENTRY_CHANGED = (
        "directory_entry_changed",
        Sentence("changed what the directory says of the account"),
    )
