"""The Web API over HTTP, and the response URLs."""

from __future__ import annotations

import json
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.fake_slack import chat, faults, lookups, views
from tests.fake_slack.access import Caller, caller_of, token_of
from tests.fake_slack.errors import ApiError
from tests.fake_slack.faults import Fault
from tests.fake_slack.records import Call, ResponseUrlUse, Team
from tests.fake_slack.state import State

Method = Callable[[State, Caller, dict[str, Any]], dict[str, Any]]
METHODS: dict[str, Method] = {
    "auth.test": lookups.auth_test,
    "users.info": lookups.users_info,
    "users.lookupByEmail": lookups.users_lookup_by_email,
    "conversations.info": lookups.conversations_info,
    "conversations.history": lookups.conversations_history,
    "conversations.replies": lookups.conversations_replies,
    "conversations.open": lookups.conversations_open,
    "apps.connections.open": lookups.apps_connections_open,
    "chat.postMessage": chat.post_message,
    "chat.update": chat.update,
    "chat.delete": chat.delete,
    "chat.postEphemeral": chat.post_ephemeral,
    "views.open": views.open_view,
    "views.update": views.update_view,
    "views.publish": views.publish,
}
FORM_ONLY = {
    "users.info",
    "users.lookupByEmail",
    "conversations.info",
    "conversations.history",
    "conversations.replies",
}
FOR_APP_TOKENS = {"apps.connections.open"}
JSON_IN_FORMS = ("blocks", "view", "metadata", "attachments")
RESPONSE_URL_LIVES_S = 30 * 60
RESPONSE_URL_USES = 5


@dataclass
class Outcome:
    answer: dict[str, Any]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    html: str = ""
    team: Team | None = None


def perform(state: State, method: str, token: str, args: dict[str, Any]) -> Outcome:
    team: Team | None = None
    headers: dict[str, str] = {}
    try:
        if method not in METHODS:
            raise ApiError("unknown_method", req_method=method)
        caller = caller_of(state, token)
        team = caller.team
        if caller.is_app != (method in FOR_APP_TOKENS):
            raise ApiError("not_allowed_token_type")
        headers["x-oauth-scopes"] = "connections:write" if caller.is_app else ",".join(team.scopes)
        with state.changing():
            answer = {"ok": True, **METHODS[method](state, caller, args)}
        return Outcome(json.loads(json.dumps(answer)), 200, headers, team=team)
    except ApiError as refusal:
        if refusal.status == 429:
            headers["Retry-After"] = str(refusal.retry_after_s or 1)
        return Outcome(refusal.answer, refusal.status, headers, team=team)


def broken(fault: Fault, team: Team | None) -> Outcome:
    if fault.status == 429:
        seconds = 1 if fault.retry_after_s is None else fault.retry_after_s
        answer = {"ok": False, "error": "ratelimited"}
        return Outcome(answer, 429, {"Retry-After": str(seconds)}, team=team)
    if fault.error:
        return Outcome({"ok": False, "error": fault.error}, fault.status or 200, team=team)
    html = "<!DOCTYPE html><html><body><h1>Server Error</h1></body></html>"
    return Outcome({}, fault.status or 500, html=html, team=team)


class Handler(BaseHTTPRequestHandler):
    server: WebApiServer
    timeout = 5

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path)
        try:
            if path.path.startswith("/api/"):
                self._call(path.path.removeprefix("/api/"), path.query, body)
            elif path.path.startswith("/response/"):
                self._response_url(body)
            else:
                self._send(Outcome({}, 404, html="<h1>Not Found</h1>"))
        except OSError:
            pass  # the client went away
        except Exception:
            self.server.state.bugs.append(traceback.format_exc())
            self._send(Outcome({"ok": False, "error": "fatal_error"}, 500))

    do_GET = do_POST

    def _call(self, method: str, query: str, body: bytes) -> None:
        state = self.server.state
        try:
            args = self._args(method, query, body)
        except ApiError as refusal:
            self._send(Outcome(refusal.answer))
            return
        token = token_of(self.headers, args)
        with state.changed:
            fault = faults.take(state.faults, method)
        if fault is None or fault.keeps_effect:
            outcome = perform(state, method, token, args)
        else:
            outcome = broken(fault, self._team(token))
        status = 0 if fault and fault.drop else outcome.status
        with state.changing():
            at = time.monotonic()
            state.calls.append(Call(method, args, outcome.team, at, outcome.answer, status))
        if fault and fault.delay_s:
            state.stopping.wait(fault.delay_s)
        if fault and fault.drop:
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self._send(outcome)

    def _team(self, token: str) -> Team | None:
        try:
            return caller_of(self.server.state, token).team
        except ApiError:
            return None

    def _args(self, method: str, query: str, body: bytes) -> dict[str, Any]:
        args: dict[str, Any] = dict(parse_qsl(query))
        if self.headers.get_content_type() == "application/json":
            said = self._json(body)
            # The real one looks for the arguments of these methods in forms only.
            return args if method in FORM_ONLY else {**args, **said}
        args |= dict(parse_qsl(body.decode()))
        for name in JSON_IN_FORMS:
            if name in args:
                try:
                    args[name] = json.loads(args[name])
                except ValueError:
                    continue  # refused by the method
        return args

    def _json(self, body: bytes) -> dict[str, Any]:
        try:
            said = json.loads(body or b"{}")
        except ValueError:
            raise ApiError("invalid_json") from None
        if not isinstance(said, dict):
            raise ApiError("json_not_object")
        return said

    def _response_url(self, body: bytes) -> None:
        state = self.server.state
        url = f"{state.api_url.removesuffix('/api/')}{self.path}"
        with state.changing():
            issued_at = state.response_urls.get(url)
            uses = sum(one.url == url for one in state.response_url_uses)
            if issued_at is None or state.clock() - issued_at > RESPONSE_URL_LIVES_S:
                outcome = Outcome({"ok": False, "error": "expired_url"}, 404)
            elif uses >= RESPONSE_URL_USES:
                outcome = Outcome({"ok": False, "error": "used_url"}, 404)
            else:
                outcome = Outcome({"ok": True})
            use = ResponseUrlUse(url, json.loads(body or b"{}"), outcome.status)
            state.response_url_uses.append(use)
        self._send(outcome)

    def _send(self, outcome: Outcome) -> None:
        is_html = bool(outcome.html)
        content = (outcome.html if is_html else json.dumps(outcome.answer)).encode()
        self.send_response(outcome.status)
        kind = "text/html" if is_html else "application/json"
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in outcome.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read ``calls``."""


class WebApiServer(ThreadingHTTPServer):
    daemon_threads = False  # stopping waits for the answers under way
    request_queue_size = 128

    def __init__(self, state: State) -> None:
        self.state = state
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.state.bugs.append(traceback.format_exc())
