"""The switch between the hosts of a storm, with sockets in place of their network devices."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from bench.chaos.switch import Switch

MAC = {"web": b"\x02\0\0\0\0\x01", "worker": b"\x02\0\0\0\0\x02", "database": b"\x02\0\0\0\0\x03"}
EVERYBODY = b"\xff" * 6


class Wires:
    """The far ends of three cables, and the orders to the switch."""

    def __init__(self) -> None:
        pairs = {host: socket.socketpair(type=socket.SOCK_DGRAM) for host in MAC}
        self.hosts = {host: near for host, (near, _) in pairs.items()}
        self._far = [far for _, far in pairs.values()]
        orders, self._orders = os.pipe()
        taps = {host: far.fileno() for host, (_, far) in pairs.items()}
        self._thread = threading.Thread(target=Switch(taps, 1, orders).run)
        self._thread.start()
        for host in self.hosts:  # so that the switch learns where everybody is
            self.send(host, EVERYBODY, b"hello")
            for other in self.hosts:
                assert other == host or self.receive(other) == b"hello"

    def send(self, host: str, to: bytes, text: bytes) -> None:
        self.hosts[host].send(to + MAC[host] + text)

    def receive(self, host: str) -> bytes:
        """Raises ``TimeoutError`` if nothing comes."""
        self.hosts[host].settimeout(5)
        return self.hosts[host].recv(2000)[12:]

    def order(self, **order: object) -> None:
        usual = {"loss": 0.0, "delay_s": 0.0}
        os.write(self._orders, json.dumps(usual | order).encode() + b"\n")

    def close(self) -> None:
        os.close(self._orders)
        self._thread.join()
        for each in (*self.hosts.values(), *self._far):
            each.close()


@pytest.fixture
def wires() -> Iterator[Wires]:
    wires = Wires()
    yield wires
    wires.close()


def test_a_frame_reaches_its_host_and_no_other(wires):
    wires.send("web", MAC["database"], b"query")
    wires.send("web", MAC["worker"], b"job")

    assert wires.receive("database") == b"query"
    assert wires.receive("worker") == b"job"


def test_a_cable_that_loses_everything_stops_one_way_only_until_it_is_mended(wires):
    wires.order(**{"from": "web", "to": "database", "loss": 1.0})
    until_obeyed(wires)
    wires.send("web", MAC["database"], b"lost")
    wires.send("database", MAC["web"], b"the other way")
    assert wires.receive("web") == b"the other way"

    wires.order(**{"from": "web", "to": "database"})
    while not has_arrived(wires, b"arrives"):
        pass  # the switch has not read the order yet


def until_obeyed(wires: Wires) -> None:
    """Send until nothing arrives any more."""
    wires.hosts["database"].settimeout(0.3)
    while has_arrived(wires, b"?"):
        pass


def has_arrived(wires: Wires, sent: bytes) -> bool:
    wires.send("web", MAC["database"], sent)
    try:
        return wires.hosts["database"].recv(2000).endswith(sent)
    except TimeoutError:
        return False


def test_a_late_frame_arrives_late(wires):
    wires.order(**{"from": "worker", "to": "database", "delay_s": 0.5})
    for _ in range(100):
        began = time.monotonic()
        wires.send("worker", MAC["database"], b"late")
        assert wires.receive("database") == b"late"
        if time.monotonic() - began >= 0.5:
            return
    raise AssertionError("the switch does not delay")
