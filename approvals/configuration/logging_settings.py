"""Settings of Python's logging."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import ImproperlyConfigured

FORMATS = ("json", "plain")


def logging_settings(form: str, *, level: str, tells_checkpoints: bool) -> dict[str, Any]:
    """For ``logging.config.dictConfig``. ``form`` is ``json`` or ``plain``.

    Raises ``ImproperlyConfigured`` for any other, and for a level that is none. With
    ``tells_checkpoints`` each signed checkpoint is one line of JSON.
    """
    if form not in FORMATS:
        raise ImproperlyConfigured(f"ASSENT_LOG_FORMAT must be json or plain, not {form!r}.")
    if level not in logging.getLevelNamesMapping():
        raise ImproperlyConfigured("ASSENT_LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR.")
    lines = ["lines"] if tells_checkpoints else []
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {"()": "approvals.http.log_lines.PlainLines"},
            "json": {"()": "approvals.http.log_lines.JsonLines"},
            "bare": {"format": "%(message)s"},
        },
        "filters": {
            "without_links": {"()": "approvals.http.log_lines.WithoutLinks"},
            "once_per_minute": {"()": "approvals.http.log_lines.OncePerMinute"},
        },
        "handlers": {
            "console": {
                "class": "logging.StreamHandler",
                "formatter": form,
                "filters": ["without_links", "once_per_minute"],
            },
            # Written by a thread: whoever reads the log slowly delays no request.
            "requests": {
                "class": "approvals.http.log_lines.InBackground",
                "formatter": form,
                "filters": ["without_links"],
            },
            "lines": {"class": "logging.StreamHandler", "formatter": "bare"},
        },
        "loggers": {
            "assent.log": {"handlers": lines, "level": "INFO", "propagate": False},
            "assent.requests": {"handlers": ["requests"], "level": "INFO", "propagate": False},
            "django": {"handlers": []},  # with DEBUG, Django's own would print each line once more
            "django.request": {"level": "ERROR"},  # who asks for what is not theirs is told so
        },
        "root": {"handlers": ["console"], "level": level},
    }
