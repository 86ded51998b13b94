"""``python -m bench.chaos.outside``: the world that the tools act on, and its own record.

Each effect, hold, release and webhook is a line of JSON in its file, with fsync, before anything
is answered. After a crash it reads the file again. It refuses, dawdles, answers late or not at
all: a few of the requests always, all of them while it is told to (``POST /mood``). It begins
nothing after the lease of a call, and writes down how it treated the call and when it answered.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

SLOW_S, LATE_S = 1.5, 4.0  # the contract's time-out is in between
MOODS = ("slow", "late", "silent", "refusing", "late_effect")
# Of a thousand requests so many are treated so at any time.
ALWAYS = {"slow": 15, "late": 10, "silent": 15, "refusing": 15, "late_effect": 5, "no": 10}


class World:
    """Effects that were done, and the file that proves them."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self.by_key: dict[str, str] = {}
        self.by_transaction: dict[str, str] = {}
        self.undone: dict[str, str] = {}
        self.holds: dict[str, str] = {}
        self._count = 0
        self._file = path.open("ab+")
        self._read_again()

    def effect(self, body: dict[str, Any]) -> str:
        """Perform it, unless the caller's key is honoured and known. Returns the receipt."""
        key, transaction = body["key"], body["transaction"]
        with self._lock:
            if body["honours_key"] and key in self.by_key:
                return self.by_key[key]
            receipt = f"rc-{self._count + 1}"
            self._write(
                {"did": "effect", "receipt": receipt, "key": key, "transaction": transaction}
                | {"tool": body["tool"], "attempt": body["attempt"]}
                | {"times": body["times"], "hold": body["hold"]}
            )
        return receipt

    def hold(self, body: dict[str, Any]) -> str:
        with self._lock:
            hold = f"hold-{self._count + 1}"
            line = {"did": "hold", "hold": hold, "key": body["key"]}
            self._write(line | {"transaction": body["transaction"]})
        return hold

    def release(self, body: dict[str, Any]) -> None:
        with self._lock:
            named = {name: body[name] for name in ("hold", "transaction")}
            self._write({"did": "release", **named})

    def undo(self, body: dict[str, Any]) -> str:
        with self._lock:
            if body["receipt"] not in self.undone:
                receipt = f"undone-{self._count + 1}"
                line = {"did": "undo", "receipt": body["receipt"], "key": body["key"]}
                self._write(line | {"undo_receipt": receipt})
            return self.undone[body["receipt"]]

    def webhook(self, message: str, body: dict[str, Any]) -> None:
        with self._lock:
            transaction = body.get("data", {}).get("transaction_id", "")
            self._write({"did": "webhook", "message": message, "transaction": transaction})

    def note(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line | {"at": time.time()}).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._know(line)

    def _know(self, line: dict[str, Any]) -> None:
        self._count += 1
        if line["did"] == "effect":
            self.by_key[line["key"]] = line["receipt"]
            self.by_transaction[line["transaction"]] = line["receipt"]
        elif line["did"] == "undo":
            self.undone[line["receipt"]] = line["undo_receipt"]

    def _read_again(self) -> None:
        """A half-written last line was never answered: it is cut off."""
        self._file.seek(0)
        whole = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            self._know(json.loads(line))
        self._file.truncate(whole)


class Mood:
    """The present treatment of requests."""

    def __init__(self) -> None:
        self._name, self._until = "", 0.0
        self._lock, self._asked = threading.Lock(), Counter[str]()

    def become(self, name: str, seconds: float) -> None:
        self._name, self._until = name, time.monotonic() + seconds

    def towards(self, request: str) -> str:
        """The treatment of this request; it depends on how often it was repeated."""
        if time.monotonic() < self._until:
            return self._name
        with self._lock:
            self._asked[request] += 1
            place = zlib.crc32(f"{request} {self._asked[request]}".encode()) % 1000
        for name, share in ALWAYS.items():
            if place < share:
                return name
            place -= share
        return ""


class Handler(BaseHTTPRequestHandler):
    world: World
    mood: Mood

    def do_GET(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        known = self.world.by_key, query.get("key", "")
        if "transaction" in query:
            known = self.world.by_transaction, query["transaction"]
        receipt = known[0].get(known[1])
        self._answer(200 if receipt else 404, {"receipt": receipt})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path == "/mood":
            self.mood.become(body["mood"], body["seconds"])
            self._answer(200, {})
            return
        perform = {
            "/effects": lambda: {"receipt": self.world.effect(body)},
            "/holds": lambda: {"hold": self.world.hold(body)},
            "/released": lambda: {"released": self.world.release(body)},
            "/undone": lambda: {"receipt": self.world.undo(body)},
            "/webhooks": lambda: {
                "received": self.world.webhook(self.headers.get("webhook-id", ""), body)
            },
        }[self.path]
        self._perform(perform, body)

    def _perform(self, perform: Callable[[], dict[str, Any]], body: dict[str, Any]) -> None:
        arrived = time.time()
        treatment = self.mood.towards(f"{self.path} {body.get('key')}")
        is_call = self.path == "/effects"
        call = {name: body.get(name) for name in ("transaction", "attempt")}
        if is_call and treatment:
            self.world.note({"did": "treated", "so": treatment, **call})
        if is_call and arrived > body["lease_until"]:
            self.world.note({"did": "late", "lease_until": body["lease_until"], **call})
            self._answer(503, {"why": "the lease of this call has run out"})
            return
        if treatment == "refusing":
            self._answer(503, {"why": "not now; nothing was done"})
            return
        if treatment == "no" and self.path == "/effects":
            self._answer(422, {"why": "refused for good; nothing was done"})
            return
        if treatment == "late_effect":
            time.sleep(LATE_S)
        answer = perform()
        if treatment == "slow":
            time.sleep(SLOW_S)
        elif treatment == "late":
            time.sleep(LATE_S)
        if treatment == "silent":
            self.close_connection = True
            self.connection.close()
            return
        if self._answer(200, answer) and is_call:
            self.world.note({"did": "answered", "arrived": arrived, **answer, **call})

    def _answer(self, status: int, body: dict[str, Any]) -> bool:
        """False if the caller has gone."""
        content = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True
            return False
        return True

    def finish(self) -> None:
        with suppress(OSError, ValueError):  # the connection was closed without an answer
            super().finish()

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--file", type=Path, required=True)
    options = parser.parse_args()
    Handler.world, Handler.mood = World(options.file), Mood()
    Server((options.host, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
