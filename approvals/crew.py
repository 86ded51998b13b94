"""The processes of ``manage.py up``, run by honcho."""

from __future__ import annotations

from honcho.manager import Manager


class Crew(Manager):  # type: ignore[misc]
    """Honcho's manager, which may also be told to stop while it still starts.

    Honcho itself raises a KeyError then, for the processes that have no number yet, and waits for
    ever for those that nobody told to end.
    """

    _is_to_stop = False

    def terminate(self) -> None:
        self._is_to_stop = True
        if super()._all_started():
            super().terminate()

    def _all_started(self) -> bool:
        """Asked in each round of the loop; what had to wait is done as soon as it is true."""
        is_true: bool = super()._all_started()
        if is_true and self._is_to_stop:
            super().terminate()
        return is_true
