"""Time to wait before the next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double: ``first``, twice as long, and so on, but never more than ``longest``.

    >>> backoff = Backoff(first=timedelta(seconds=2), longest=timedelta(seconds=10))
    >>> [backoff.wait(failures).seconds for failures in range(6)]
    [2, 2, 4, 8, 10, 10]
    """

    first: timedelta
    longest: timedelta

    def wait(self, failures: int) -> timedelta:
        """The wait after this many failures in a row; after one, and after none, ``first``."""
        wait = self.first
        for _ in range(1, failures):
            if wait >= self.longest:
                break
            wait *= 2
        return min(wait, self.longest)

    def wait_with_jitter(self, failures: int) -> timedelta:
        """The same, up to a fifth shorter at random: not everyone comes back at one moment."""
        return self.wait(failures) * random.uniform(0.8, 1.0)
