"""Project wiring: pages and REST."""

from __future__ import annotations

import gc
import os

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "approvals.settings")
_is_its_own_process = not settings.configured


class Utf8Request(WSGIRequest):
    """Reads query and form as UTF-8, whatever charset the client names: not all of them are one."""

    @property
    def encoding(self) -> str | None:
        return None

    @encoding.setter
    def encoding(self, named: str | None) -> None:
        pass


application = get_wsgi_application()
application.request_class = Utf8Request

from ledger.foundation import doorbell, liveness  # noqa: E402
from ledger.foundation.postgres import sessions  # noqa: E402
from ledger.workers import refuse_if_unsafe  # noqa: E402

refuse_if_unsafe("web")
if _is_its_own_process:
    sessions.bound("web", serves_people=True)
    doorbell.ring_in_background()
    liveness.show("web")

# What is loaded by now stays for good: the collector need not look at it with every request.
gc.collect()
gc.freeze()
