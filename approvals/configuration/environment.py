"""Variables of the environment, as settings read them."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from ledger.foundation.programs import programs_in


def text(name: str, default: str = "") -> str:
    """The variable, or the content of the file that ``<name>_FILE`` names."""
    if path := os.environ.get(f"{name}_FILE"):
        return Path(path).read_text().strip()
    return os.environ.get(name) or default  # an empty line in .env leaves the default


def flag(name: str, default: bool = False) -> bool:
    value = text(name).lower()
    if value not in {"", "0", "1", "true", "false", "yes", "no"}:
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {value!r}.")
    return default if value == "" else value in {"1", "true", "yes"}


def names(name: str, default: str = "") -> list[str]:
    return [item.strip() for item in text(name, default).split(",") if item.strip()]


def commands(name: str) -> dict[str, list[str]]:
    """Programs by name, each with its arguments, from a JSON object."""
    try:
        return programs_in(text(name))
    except ValueError as failure:
        raise ImproperlyConfigured(f"{name}: {failure}") from None
