"""Log lines: paths that may open an account are redacted, and what is repeated is left out."""

from __future__ import annotations

import logging
import re
import time

# Whatever follows these is a token that works until it is used.
LINKS = re.compile(r"(/(?:join|first|slack/link|unsubscribe)/|join:)[^/\s?&\"']+")


class WithoutLinks(logging.Filter):
    """Hides the tokens of one-time links."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if LINKS.search(message):
            record.msg, record.args = LINKS.sub(r"\1…", message), ()
        return True


class OncePerMinute(logging.Filter):
    """Leaves out what a library repeats every second, in each thread, while a service is away."""

    LOGGERS = ("psycopg.pool", "rq.worker")
    REPEATED = ("error connecting", "could not connect")
    QUIET_S = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._again_at: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line, now = (record.name, record.msg), time.monotonic()
        is_repeated = any(each in str(record.msg) for each in self.REPEATED)
        if record.name not in self.LOGGERS or not is_repeated:
            return True
        if now < self._again_at.get(line, now):
            return False
        self._again_at[line] = now + self.QUIET_S
        return True
