"""An Assent that plays a case of ``client.json`` on loopback, and says what was not as it expects.

    with Player() as player:
        player.play(name)          # then the client calls player.url
        player.faults()            # [] where it asked for what the case has, and for nothing else

A client in another language runs it as a process (``python player.py`` prints its address), posts
the case's name to ``/play`` as JSON, and reads ``/faults``. It needs Python and nothing else.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FILE = Path(__file__).with_name("client.json")
TOKEN = "a-token"
SLOW_S = 0.2  # what is slow takes so long


class Player:
    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.player = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._file = json.loads(FILE.read_text().replace("{url}", self.url))
        self._left: list[Json] = []
        self._faults: list[str] = []
        self._made_key = ""

    def __enter__(self) -> Player:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self) -> None:
        self._server.serve_forever()

    def play(self, name: str) -> None:
        """From now on this case; the one before is forgotten."""
        (case,) = (one for one in self._file["cases"] if one["name"] == name)
        self._left, self._faults, self._made_key = list(case["exchanges"]), [], ""

    def faults(self) -> list[str]:
        left = [f"never asked for: {one['request']['path']}" for one in self._left]
        return self._faults + left

    def answer(self, request: Json) -> Json:
        """What the case answers; a request that it does not have is answered 418."""
        if not self._left:
            self._faults.append(f"one too many: {request['method']} {request['path']}")
            return {"status": 418}
        exchange = self._left.pop(0)
        if faults := list(self._differences(exchange["request"], request)):
            self._faults += faults
            return {"status": 418}
        answer: Json = exchange["answer"]
        if "transaction" in answer:  # what is different from the one at the head of the file
            return {
                "status": 200,
                "body": self._file["transaction"] | answer["transaction"],
            } | answer
        return answer

    def _differences(self, expected: Json, request: Json) -> Any:
        headers = {"authorization": f"Bearer {TOKEN}", **expected.get("headers", {})}
        if "body" in expected:
            headers["content-type"] = "application/json"
        for name, value in headers.items():
            found = request["headers"].get(name)
            if value == "a made key":
                self._made_key = value = self._made_key or found or "any"
            if found != value:
                yield f"{name} is {found!r}, not {value!r}"
        for name in {"idempotency-key", "if-none-match"} & set(request["headers"]) - set(headers):
            yield f"{name} is {request['headers'][name]!r}, and not expected"
        for part in ("method", "path", "body"):
            if expected.get(part) != request[part]:
                yield f"{part} is {request[part]!r}, not {expected.get(part)!r}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        player: Player = self.server.player  # type: ignore[attr-defined]
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.loads(sent) if sent else None
        if self.path == "/play":
            player.play(str(body))
            self._say({"status": 204})
        elif self.path == "/faults":
            self._say({"status": 200, "body": player.faults()})
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = {"method": self.command, "path": self.path, "headers": headers, "body": body}
            self._say(player.answer(request))

    do_GET = do_POST = _serve

    def _say(self, answer: Json) -> None:
        if answer.get("slow"):
            time.sleep(SLOW_S)
        text = answer.get("text", json.dumps(answer["body"]) if "body" in answer else "").encode()
        if lost := answer.get("lost"):  # "all", or its "end"
            self.close_connection = True
            if lost == "end":
                self._head(200, {}, len(text) + 1)
                self.wfile.write(text)
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._head(answer["status"], answer.get("headers", {}), len(text))
        self.wfile.write(text)

    def _head(self, status: int, headers: Json, length: int) -> None:
        self.send_response(status)
        kind = "application/problem+json" if status >= 400 else "application/json"
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name, value)
        if status not in {204, 304}:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the faults are asked for."""


if __name__ == "__main__":
    player = Player()
    print(player.url, flush=True)
    player.serve()
