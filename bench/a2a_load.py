"""Load of A2A clients: JSON-RPC on persistent connections.

python -m bench.a2a_load http://127.0.0.1:8000/a2a/v1 TOKEN [SKILL]
"""

from __future__ import annotations

import json
import random
import sys
import uuid
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from bench.http_load import SECONDS, Figures, Load, ceiling, request

INPUT = {"customer": "Ana Ruiz", "order": 1042, "lines": ["A lamp arrived broken."] * 20}
RESULT = (b"HTTP/1.1 200", b'"result"')


def measure(
    name: str,
    url: str,
    token: str,
    connections: int,
    task_ids: list[str],
    skill: str = "park",
    cpu: Callable[[], float] = lambda: float("nan"),
) -> Figures:
    """Requests per second, p50 and p99 in milliseconds of both methods of one server.

    ``GetTask`` requests the ``task_ids`` at random. ``cpu`` returns the processor time that the
    server has used, in seconds: then also milliseconds of it per request.
    """
    figures: Figures = {}
    methods = {"send": sends(url, token, skill), "get": gets(url, token, task_ids)}
    for method, requests in methods.items():
        load = Load(url, connections, expects=RESULT)
        load.run(requests, seconds=1.0)  # warm up
        before = cpu()
        load.run(requests, seconds=SECONDS)
        used = (cpu() - before) * 1000 / max(1, len(load.spans))
        figures |= {f"{name}: {method}{unit}": value for unit, value in load.figures().items()}
        figures |= {f"{name}: {method} cpu ms": used} if used == used else {}
    return figures


def park(url: str, token: str, number: int, skill: str = "park") -> list[str]:
    """Submit ``number`` tasks and return their ids. Raises ``AssertionError`` if one is refused."""
    load = Load(url, connections=8, expects=RESULT, keeps=True)
    load.run(islice(sends(url, token, skill), number))
    assert load.errors == 0, f"{load.errors} of {number} were not taken"
    return [json.loads(answer)["result"]["task"]["id"] for answer in load.kept]


def sends(url: str, token: str, skill: str) -> Iterator[bytes]:
    """``SendMessage`` with a data part of about 600 bytes, never the same message twice."""
    mark = "0" * 32
    part = {"data": {"skill": skill, "input": INPUT}}
    message = {"messageId": mark, "role": "ROLE_USER", "parts": [part]}
    params = {"message": message, "configuration": {"returnImmediately": True}}
    before, between, after = _rpc(url, token, mark, "SendMessage", params).split(mark.encode())
    while True:
        fresh = uuid.uuid4().hex.encode()
        yield b"".join((before, fresh, between, fresh, after))


def gets(url: str, token: str, task_ids: list[str]) -> Iterator[bytes]:
    requests = [_rpc(url, token, "get", "GetTask", {"id": task_id}) for task_id in task_ids]
    while True:
        yield random.choice(requests)


def _rpc(url: str, token: str, number: str, method: str, params: Any) -> bytes:
    call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return request(
        "POST",
        urlsplit(url).path,
        json.dumps(call).encode(),
        authorization=f"Bearer {token}",
        a2a_version="1.0",
    )


def main(url: str, token: str, skill: str = "park") -> None:
    print(f"ceiling of the client {ceiling():.0f}/s")
    task_ids = park(url, token, 2_000, skill)
    for connections in (8, 32):
        print(f"{connections} connections")
        for name, value in measure("server", url, token, connections, task_ids, skill).items():
            print(f"  {name:<28} {value:10.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
