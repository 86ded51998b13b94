"""Keep one program running: start it again when it dies, stop it when we are told to stop.

python -m approvals.keep_running manage.py work
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 5.0
LOOK_EVERY_S = 0.5
# The process whose end is ours as well, as ``identity`` names it.
SUPERVISOR = "ASSENT_SUPERVISOR"
# Whoever ran this long starts again without waiting.
STEADY_S = 10.0


def identity(pid: int) -> str:
    """A process, even if its number is given out again: ``1234:567890`` (start time, Linux).

    One that ended counts as gone even while nobody has taken note of its end.
    """
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return f"{pid}:"
    return f"{pid}:{'ended' if state in 'ZX' else rest[18]}"


def is_alive(whom: str) -> bool:
    pid = int(whom.partition(":")[0])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return identity(pid) == whom


def end_with_supervisor() -> None:
    """Stop ourselves when the process that started everything is gone, even if it was killed."""
    whom = os.environ.get(SUPERVISOR)
    if not whom:
        return

    def watch() -> None:
        while is_alive(whom):
            time.sleep(LOOK_EVERY_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor", daemon=True).start()


def keep_running(command: list[str]) -> int:
    """Returns the exit code to end with once a signal told us to stop."""
    child: subprocess.Popen[bytes] | None = None
    is_stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        is_stopping = True
        if child is not None and child.poll() is None:
            child.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    end_with_supervisor()
    wait_s = FIRST_WAIT_S
    while not is_stopping:
        began = time.monotonic()
        child = subprocess.Popen(command)
        if is_stopping:  # we were told while it started, when there was nobody to pass it on to
            child.send_signal(signal.SIGTERM)
        code = child.wait()
        if is_stopping:
            break
        wait_s = FIRST_WAIT_S if time.monotonic() - began > STEADY_S else wait_s
        print(f"exited with {code}; starting again in {wait_s:.1f} s", flush=True)  # noqa: T201
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, LONGEST_WAIT_S)
    return 0


if __name__ == "__main__":
    sys.exit(keep_running([sys.executable, *sys.argv[1:]]))
