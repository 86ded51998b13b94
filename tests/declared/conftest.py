"""Files of settings, and the commands that apply and write them."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from ledger.models import Event

Apply = Callable[..., str]


@pytest.fixture
def apply(tmp_path: Any) -> Apply:
    """Apply this text; returns what the command said, also where it refused something."""

    def apply(text: str, *options: str) -> str:
        (tmp_path / "settings.yaml").write_text(text)
        said = StringIO()
        try:
            call_command(
                "apply", str(tmp_path / "settings.yaml"), *options, stdout=said, stderr=said
            )
        except CommandError as refusal:
            said.write(f"{refusal}\n")
        return said.getvalue()

    return apply


def exported(*tenants: str) -> str:
    said = StringIO()
    call_command("export_settings", *(f"--tenant={each}" for each in tenants), stdout=said)
    return said.getvalue()


def kinds_since(events: int) -> list[str]:
    """The kinds of the events after the first so many."""
    return list(Event.objects.order_by("pk").values_list("kind", flat=True)[events:])
