"""``python -m bench.chaos.switch``: an Ethernet switch between hosts, whose cables can be bad.

Each host has a TAP device, and every frame passes through this process. So frames can be lost,
delayed or stopped, one way or both ways, between any two hosts, with nothing but ``/dev/net/tun``:
no packet filter and no traffic control in the kernel. Orders are lines of JSON on standard input:
``{"from": "web-1", "to": "database", "loss": 1.0, "delay_s": 0}``.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import json
import os
import random
import selectors
import struct
import sys
import time
from dataclasses import dataclass

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME = 1 << 16
BROADCAST = 0x01  # the first bit of a MAC address on the wire


@dataclass(frozen=True, slots=True)
class Cable:
    """The treatment of frames from one host to another."""

    loss: float = 0.0
    delay_s: float = 0.0


GOOD = Cable()


class Switch:
    """Learns which MAC address is where, and passes frames on as their cable allows.

    ``taps`` has a descriptor for each host, from which its frames are read one by one.
    """

    def __init__(self, taps: dict[str, int], seed: int, orders: int = 0) -> None:
        self._taps, self._orders = taps, orders
        self._hosts = {descriptor: host for host, descriptor in self._taps.items()}
        self._where: dict[bytes, str] = {}
        self._cables: dict[tuple[str, str], Cable] = {}
        self._late: list[tuple[float, int, int, bytes]] = []  # due, number, descriptor, frame
        self._numbers, self._dice = itertools.count(), random.Random(seed)

    def run(self) -> None:
        """Until the orders end."""
        selector = selectors.DefaultSelector()
        for descriptor in (*self._hosts, self._orders):
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        orders = b""
        while True:
            for key, _ in selector.select(self._next_due_s()):
                if key.fd in self._hosts:
                    self._pass_all(key.fd)
                elif not (chunk := os.read(key.fd, FRAME)):
                    return
                else:
                    *lines, orders = (orders + chunk).split(b"\n")
                    for line in lines:
                        self._obey(json.loads(line))
            self._send_due()

    def _obey(self, order: dict[str, object]) -> None:
        cable = Cable(float(str(order["loss"])), float(str(order["delay_s"])))
        self._cables[str(order["from"]), str(order["to"])] = cable

    def _pass_all(self, descriptor: int) -> None:
        source = self._hosts[descriptor]
        for _ in range(64):
            try:
                frame = os.read(descriptor, FRAME)
            except OSError:  # nothing more, or the device is down
                return
            self._where[frame[6:12]] = source
            known = None if frame[0] & BROADCAST else self._where.get(frame[:6])
            for target in [known] if known else self._taps:
                if target != source:
                    self._pass(source, target, frame)

    def _pass(self, source: str, target: str, frame: bytes) -> None:
        cable = self._cables.get((source, target), GOOD)
        if cable.loss and self._dice.random() < cable.loss:
            return
        if cable.delay_s:
            due = time.monotonic() + cable.delay_s
            heapq.heappush(self._late, (due, next(self._numbers), self._taps[target], frame))
        else:
            _send(self._taps[target], frame)

    def _next_due_s(self) -> float | None:
        return max(0.0, self._late[0][0] - time.monotonic()) if self._late else None

    def _send_due(self) -> None:
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, descriptor, frame = heapq.heappop(self._late)
            _send(descriptor, frame)


def _send(descriptor: int, frame: bytes) -> None:
    try:
        os.write(descriptor, frame)
    except OSError:  # the device is down or its queue is full: the frame is lost
        return


def tap(device: str) -> int:
    """A new TAP device of this name; it goes when its descriptor is closed."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


if __name__ == "__main__":
    descriptors = {host: tap(device) for host, device in json.loads(sys.argv[1]).items()}
    switch = Switch(descriptors, int(sys.argv[2]))
    print("ready", flush=True)
    switch.run()
