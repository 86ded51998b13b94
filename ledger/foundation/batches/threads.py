"""Requests that threads make at the same time, done together by one of them.

The counterpart of ``requests`` for processes whose work is done in threads: there is no loop that
collects, and a thread that asks alone does it by itself, on its own database session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

Request = TypeVar("Request")
Result = TypeVar("Result")


MOST_TOGETHER = 100


class _Asked(Generic[Request, Result]):
    def __init__(self, request: Request) -> None:
        self.request = request
        self.result: Result | None = None
        self.is_done = False
        self.leads = False
        self.turn = threading.Event()  # the others have tried it, or it leads


class Combiner(Generic[Request, Result]):
    """Does the requests that come in while others are being done as the next ones, together.

    ``do_all`` returns a result for each, in the same order; ``None`` where it did nothing. What it
    did not do, or failed with, together with others, each thread does once more for itself alone.
    """

    def __init__(
        self,
        do_all: Callable[[Sequence[Request]], Sequence[Result | None]],
        *,
        subject: Callable[[Request], Hashable],
    ) -> None:
        """Requests about one ``subject`` are never done together."""
        self._do_all, self._subject = do_all, subject
        self._lock = threading.Lock()
        self._line: list[_Asked[Request, Result]] = []
        self._is_led = False

    def ask(self, request: Request) -> Result | None:
        """The result of one request. Raises what ``do_all`` raises for it alone."""
        asked = _Asked[Request, Result](request)
        with self._lock:
            if self._is_led:
                self._line.append(asked)
            else:
                self._is_led = asked.leads = True
        if not asked.leads:
            asked.turn.wait()
        if asked.leads:
            self._lead(asked)
        return asked.result if asked.is_done else self._alone(request)

    def _lead(self, first: _Asked[Request, Result]) -> None:
        """Do the requests of all who have come; the next one leads then."""
        others = self._take_along(first)
        try:
            if others:
                self._do_together([first, *others])
            else:
                first.result, first.is_done = self._alone(first.request), True
        finally:
            self._hand_over()
            for asked in others:
                asked.turn.set()

    def _take_along(self, first: _Asked[Request, Result]) -> list[_Asked[Request, Result]]:
        others: list[_Asked[Request, Result]] = []
        subjects = {self._subject(first.request)}
        with self._lock:
            for asked in list(self._line):
                subject = self._subject(asked.request)
                if subject not in subjects and len(subjects) < MOST_TOGETHER:
                    subjects.add(subject)
                    others.append(asked)
                    self._line.remove(asked)
        return others

    def _do_together(self, every: Sequence[_Asked[Request, Result]]) -> None:
        try:
            results = self._do_all([asked.request for asked in every])
        except Exception as failure:
            logger.info("%d at once failed, each goes on alone: %s", len(every), failure)
            return
        for asked, result in zip(every, results, strict=True):
            asked.result, asked.is_done = result, result is not None

    def _hand_over(self) -> None:
        with self._lock:
            if not self._line:
                self._is_led = False
                return
            following = self._line.pop(0)
        following.leads = True
        following.turn.set()

    def _alone(self, request: Request) -> Result | None:
        [result] = self._do_all([request])
        return result
