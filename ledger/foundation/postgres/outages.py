"""Log lines of a process about a database that does not answer: one line a minute."""

from __future__ import annotations

import logging
import time

from psycopg.errors import LockNotAvailable

SAY_EVERY_S = 60.0


class Outage:
    """One process's view of the database being away."""

    def __init__(self, who: str, logger: logging.Logger) -> None:
        self._who, self._logger = who, logger
        self._began: float | None = None
        self._logged_at = 0.0

    def goes_on(self, failure: Exception) -> None:
        """The database was asked and did not answer."""
        now = time.monotonic()
        if self._began is None:
            self._began, self._logged_at = now, 0.0
        if self._logged_at == 0.0 or now - self._logged_at >= SAY_EVERY_S:
            self._logged_at = now
            line = str(failure).strip().partition("\n")[0]
            self._logger.warning(
                "the database does not answer %s for %.0f s: %s", self._who, now - self._began, line
            )

    def is_over(self) -> None:
        """It answered. Says so if there was an outage."""
        if self._began is not None:
            lasted = time.monotonic() - self._began
            self._began = None
            self._logger.warning("the database answers %s again after %.0f s", self._who, lasted)


def is_locked(failure: Exception) -> bool:
    """True if somebody else had the row locked for longer than ``lock_timeout``."""
    return isinstance(failure.__cause__, LockNotAvailable)
