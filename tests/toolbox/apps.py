from __future__ import annotations

import os
import signal

from django.apps import AppConfig


class ToolboxConfig(AppConfig):
    name = "tests.toolbox"
    label = "toolbox"

    def ready(self) -> None:
        """A worker that is told to dies -9 at a named line."""
        if line := os.environ.get("ASSENT_TEST_KILL_AT"):
            from ledger.execution import crash_points

            def die(here: str) -> None:
                if here == line:
                    os.kill(os.getpid(), signal.SIGKILL)

            crash_points.hook = die
