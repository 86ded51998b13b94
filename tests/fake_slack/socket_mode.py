"""The other end of Socket Mode."""

from __future__ import annotations

import itertools
import json
import threading
import time
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tests.fake_slack.post import MARGIN_S
from tests.fake_slack.records import Envelope, Reaction, Team
from tests.fake_slack.state import State

ACK_KEYS = {"envelope_id", "payload"}


@dataclass(eq=False)
class Line:
    connection: ServerConnection
    app_token: str
    is_retiring: bool = False


@dataclass(eq=False)
class Waiting:
    accepts_payload: bool
    line: Line
    ack: dict[str, Any] | None = None


class SocketMode:
    def __init__(self, state: State) -> None:
        self.state = state
        self.lines: list[Line] = []
        self._waiting: dict[str, Waiting] = {}
        self._turn = itertools.count()
        self._server = serve(
            self._serve,
            "127.0.0.1",
            0,
            process_request=self._admit,
            compression=None,
            # slack_sdk closes only between two frames: often, so that tests end soon.
            ping_interval=0.2,
            close_timeout=1,
        )
        self._thread = threading.Thread(target=self._server.serve_forever, name="fake Slack socket")
        self._thread.start()
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}/"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()

    def open_lines(self, team: Team | None = None) -> list[Line]:
        with self.state.changed:
            return [
                one
                for one in self.lines
                if not one.is_retiring and (team is None or one.app_token == team.app_token)
            ]

    def refresh(self) -> None:
        """Asks the clients to connect anew; nothing more is sent on the old connections."""
        for line in self.open_lines():
            with self.state.changing():
                line.is_retiring = True
            debug = {"host": "applink-fake"}
            self._send(
                line, {"type": "disconnect", "reason": "refresh_requested", "debug_info": debug}
            )

    def drop(self, *, abruptly: bool) -> None:
        for line in self.open_lines():
            with self.state.changing():
                line.is_retiring = True
            if abruptly:
                line.connection.close_socket()
            else:
                line.connection.close(1001, "going away")

    def deliver(
        self, envelope: Envelope, *, patience_s: float, trigger_id: str = "", retry: int = 0
    ) -> Reaction:
        start = time.monotonic()
        sent = self._submit(envelope, retry)
        acked = sent and self._wait(sent, patience_s)
        is_late = not acked
        if is_late and envelope.kind == "events_api" and not retry:
            with self.state.changed:  # the client may be connecting anew
                self.state.changed.wait_for(lambda: self.open_lines(envelope.team), patience_s)
            again = self._submit(envelope, 1)
            acked = self._wait([*(sent or []), *(again or [])], patience_s)
        elif is_late and sent:
            acked = self._wait(sent, MARGIN_S)
        seconds = time.monotonic() - start
        if not acked:
            said = "no answer" if sent else "no connection"
            return Reaction(0, said, None, seconds, bool(sent), trigger_id, envelope)
        payload = acked.get("payload")
        body = "" if payload is None else json.dumps(payload)
        return Reaction(200, body, payload, seconds, is_late, trigger_id, envelope)

    def _submit(self, envelope: Envelope, retry: int) -> list[str]:
        lines = self.open_lines(envelope.team)
        if not lines:
            return []
        line = lines[next(self._turn) % len(lines)]
        envelope_id = str(uuid.uuid4())
        answers = envelope.kind == "slash_commands" or (
            envelope.payload.get("type") == "view_submission"
        )
        message: dict[str, Any] = {
            "envelope_id": envelope_id,
            "type": envelope.kind,
            "payload": envelope.payload,
            "accepts_response_payload": answers,
        }
        if envelope.kind == "events_api" or retry:
            message |= {"retry_attempt": retry, "retry_reason": "timeout" if retry else ""}
        with self.state.changed:
            self._waiting[envelope_id] = Waiting(answers, line)
        self._send(line, message)
        return [envelope_id]

    def _wait(self, envelope_ids: list[str], seconds: float) -> dict[str, Any] | None:
        """The first acknowledgement; nothing as soon as all the connections are gone."""
        waiting = [self._waiting[one] for one in envelope_ids]

        def is_over() -> bool:
            has_ack = any(one.ack for one in waiting)
            return has_ack or not any(one.line in self.lines for one in waiting)

        with self.state.changed:
            self.state.changed.wait_for(is_over, seconds)
            return next((one.ack for one in waiting if one.ack), None)

    def _send(self, line: Line, message: dict[str, Any]) -> None:
        try:
            line.connection.send(json.dumps(message))
        except (ConnectionClosed, OSError):
            self._forget(line)

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        ticket = "".join(parse_qs(urlsplit(request.path).query).get("ticket", [""]))
        with self.state.changed:
            app_token = self.state.tickets.pop(ticket, "")
        if not app_token:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "this ticket is unknown or used\n")
        connection.app_token = app_token  # type: ignore[attr-defined]
        return None

    def _serve(self, connection: ServerConnection) -> None:
        line = Line(connection, connection.app_token)  # type: ignore[attr-defined]
        try:
            self._send(line, self._hello(line.app_token))
            with self.state.changing():
                self.lines.append(line)
            for text in connection:
                self._hear(line, text)
        except (ConnectionClosed, OSError):
            pass
        finally:
            self._forget(line)

    def _hello(self, app_token: str) -> dict[str, Any]:
        teams = self.state.teams.values()
        app_id = next(one.app_id for one in teams if one.app_token == app_token)
        return {
            "type": "hello",
            "num_connections": len(self.lines) + 1,
            "debug_info": {"host": "applink-fake", "approximate_connection_time": 18060},
            "connection_info": {"app_id": app_id},
        }

    def _hear(self, line: Line, text: str | bytes) -> None:
        with self.state.changing():
            try:
                ack = json.loads(text)
                waiting = self._waiting[ack["envelope_id"]]
            except (ValueError, KeyError, TypeError):
                self.state.bugs.append(f"an acknowledgement of nothing: {text!r}")
                return
            if set(ack) - ACK_KEYS:
                self.state.bugs.append(f"unknown keys in an acknowledgement: {text!r}")
            if ack.get("payload") and not waiting.accepts_payload:
                self.state.bugs.append(f"this envelope accepts no payload: {text!r}")
            waiting.ack = ack

    def _forget(self, line: Line) -> None:
        with self.state.changing():
            if line in self.lines:
                self.lines.remove(line)
