"""Check of the setting of HumanLayer's API, before a process starts."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.core.checks import CheckMessage, Error

LEAST_S, MOST_S = 60, 30 * 86_400


def terms() -> Iterator[CheckMessage]:
    if not LEAST_S <= settings.HUMANLAYER_TTL_S <= MOST_S:
        yield Error(
            f"ASSENT_HUMANLAYER_TTL_S is {settings.HUMANLAYER_TTL_S:g}.",
            hint="60 to 2592000: seconds that a call of a HumanLayer client waits for people.",
            id="assent.E016",
        )
