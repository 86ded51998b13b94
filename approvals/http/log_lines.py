"""Redaction of log lines: a failed request is logged with its path, which may open an account."""

from __future__ import annotations

import logging
import re

# Whatever follows these is a token that works until it is used.
LINKS = re.compile(r"(/(?:join|first|slack/link|unsubscribe)/|join:)[^/\s?&\"']+")


class WithoutLinks(logging.Filter):
    """Hides the tokens of one-time links."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if LINKS.search(message):
            record.msg, record.args = LINKS.sub(r"\1…", message), ()
        return True
