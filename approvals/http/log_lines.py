"""Log lines: JSON for machines; paths that may open an account are redacted, and what is repeated
is left out."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from ledger.foundation.characters import CONTROLS
from ledger.foundation.telemetry import log_context

# Whatever follows these is a token that works until it is used.
LINKS = re.compile(r"(/(?:join|first|slack/link|unsubscribe|account/email)/|join:)[^/\s?&\"']+")

# The password in an address of a database, a cache or a collector.
PASSWORDS = re.compile(r"(://[^/\s:@]*:)[^/\s]+(?=@)")

COMMANDS = ("manage.py", "assent manage")
LOST = {"name": "assent.requests", "levelno": logging.WARNING, "levelname": "WARNING"}


def without_links(text: str) -> str:
    return PASSWORDS.sub(r"\1…", LINKS.sub(r"\1…", text))


class WithoutLinks(logging.Filter):
    """Hides the tokens of one-time links, and passwords in addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if (shown := without_links(message)) != message:
            record.msg, record.args = shown, ()
        if facts := getattr(record, "facts", None):
            facts["path"] = without_links(facts["path"])
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


class InBackground(logging.StreamHandler[TextIO]):
    """Writes in a thread; whoever reads too slowly loses lines, and is told how many."""

    MOST = 10_000  # lines that wait

    def __init__(self) -> None:
        super().__init__()
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._lost = 0
        self._writer: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self._writer is None:  # not before: a process may fork once it is set up
            self._writer = threading.Thread(target=self._write, name="request-log", daemon=True)
            self._writer.start()
        if self._lines.qsize() >= self.MOST:
            self._lost += 1
            return
        if self._lost:
            told = f"{self._lost} lines were lost: the log is read too slowly"
            self._lost = 0
            self._lines.put(self.format(logging.makeLogRecord({**LOST, "msg": told})))
        self._lines.put(self.format(record))

    def flush(self) -> None:
        """Nothing: the thread flushes."""

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            with suppress(OSError, ValueError):  # nobody reads any more
                self.stream.write(f"{line}\n")
                self.stream.flush()


def escaped(text: str) -> str:
    """Without what moves a terminal, breaks a line, or cannot be written as UTF-8."""
    return CONTROLS.sub(lambda control: json.dumps(control[0])[1:-1], text)


class PlainLines(logging.Formatter):
    """For people. What continues a message stands apart: it begins no line of its own."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).replace("\n", "\n    ")

    def format(self, record: logging.LogRecord) -> str:
        return escaped(without_links(super().format(record)))


class JsonLines(logging.Formatter):
    """One object on a line: when, how grave, which process, what, and what it is about.

    ``{"time": "2026-11-30T10:49:00.123Z", "level": "INFO", "process": "web:4711", "logger": …,
    "message": …}``, with ``request_id, tenant, principal, transaction, trace_id, job`` where they
    are known, what the line itself states, and the traceback as ``error``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._program = _program()

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "process": f"{self._program}:{record.process}",
            "logger": record.name,
            "message": record.getMessage(),
            **log_context.current(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["error"] = without_links(self.formatException(record.exc_info))
        return escaped(json.dumps(line, ensure_ascii=False, default=str))


def _program() -> str:
    """The command of ``manage.py`` or ``assent manage``, or ``web``."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return sys.argv[1] if name in COMMANDS and len(sys.argv) > 1 else "web"
