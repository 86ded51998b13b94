"""Check of the settings of the SIEM, before a process starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core.checks import CheckMessage, Error

from ledger.delivery.siem.forms import FORMS
from ledger.foundation import http_out


def terms() -> Iterator[CheckMessage]:
    if not settings.SIEM_URL:
        return
    try:
        http_out.parse(settings.SIEM_URL)
    except http_out.AddressRefused as refusal:
        yield _error(
            f"ASSENT_SIEM_URL cannot be used: {refusal}", "Tokens go to ASSENT_SIEM_TOKEN."
        )
    if settings.SIEM_FORM not in FORMS:
        yield _error("ASSENT_SIEM_FORM is no form that is known.", f"{', '.join(FORMS)}.")
    if settings.SIEM_CA and not Path(settings.SIEM_CA).is_file():
        yield _error("ASSENT_SIEM_CA is no file.", "Name one with certificates (PEM).")


def _error(what: str, hint: str) -> Error:
    return Error(what, hint=hint, id="assent.E018")
