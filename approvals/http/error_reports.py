"""Limits of what an error page may print: no secret, and no address that carries one."""

from __future__ import annotations

import re
from typing import Any

from django.views.debug import SafeExceptionReporterFilter

# An address with a password in it, whatever the setting or variable is called.
WITH_PASSWORD = re.compile(r"(?i)[a-z][a-z0-9+.-]*://[^\s/@'\"]*:[^\s@'\"]+@")


class WithoutSecrets(SafeExceptionReporterFilter):
    """Django hides what is named like a secret; DATABASE_URL and REDIS_URL are not."""

    hidden_settings = re.compile(
        "API|AUTH|TOKEN|KEY|SECRET|PASS|SIGNATURE|HTTP_COOKIE|DATABASE|REDIS|DSN|CACHE|CHANNEL|QUEUE",
        re.IGNORECASE,
    )

    def cleanse_setting(self, key: Any, value: Any) -> Any:
        """A whole dictionary (DATABASES, RQ_QUEUES) goes by its own name."""
        if isinstance(key, str) and self.hidden_settings.search(key):
            return self.cleansed_substitute
        cleansed = super().cleanse_setting(key, value)
        return self._without_passwords(cleansed)

    def get_traceback_frame_variables(self, request: Any, tb_frame: Any) -> Any:
        variables = super().get_traceback_frame_variables(request, tb_frame)
        return [
            (name, self.cleansed_substitute if self._is_secret(name, value) else value)
            for name, value in variables
        ]

    def _is_secret(self, name: str, value: Any) -> bool:
        is_named_so = self.hidden_settings.search(name) is not None
        return is_named_so or (isinstance(value, str) and WITH_PASSWORD.search(value) is not None)

    def _without_passwords(self, value: Any) -> Any:
        if isinstance(value, str) and WITH_PASSWORD.search(value):
            return self.cleansed_substitute
        return value
