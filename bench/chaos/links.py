"""``python -m bench.chaos.links``: the networks between the processes of a storm, in one process.

In a process of their own, so that a busy driver does not slow down what they carry. Orders are
lines of JSON on standard input: ``[3, "swallow"]``.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.faults import Network

SLOW_S = 0.15  # for each chunk that is passed on


def main() -> None:
    networks = [Network((host, port)) for host, port in json.loads(sys.argv[1])]
    print(json.dumps([network.port for network in networks]), flush=True)
    for line in sys.stdin:
        number, order = json.loads(line)
        _obey(networks[number], order)


def _obey(network: Network, order: str) -> None:
    if order == "swallow":
        network.swallow()
    elif order == "cut":
        network.cut()
    elif order == "slow":
        network.delay_s = SLOW_S
    else:
        network.delay_s = 0
        network.restore()


class Links:
    """The driver's end: starts the process and gives it orders. Each link has a name."""

    def __init__(self, servers: dict[str, tuple[str, int]]) -> None:
        self.names = list(servers)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.chaos.links", json.dumps(list(servers.values()))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        ports = json.loads(self._process.stdout.readline())
        self.ports: dict[str, int] = dict(zip(self.names, ports, strict=True))

    def order(self, name: str, order: str) -> None:
        """``swallow``, ``slow``, ``cut`` (at once, and only what is open) or ``restore``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([self.names.index(name), order]) + "\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    main()
