"""A SIEM on loopback that takes nothing but what its form says."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

TOKEN = "siem-token-of-the-tests"


class SiemReceiver(ThreadingHTTPServer):
    """``behaviours`` are used up, one for each request: a status, ``hang``, ``late``, ``cut``."""

    daemon_threads = True

    def __init__(self, form: str) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.read: Callable[[Any, str], list[dict[str, Any]]] = FORMS[form]
        self.behaviours: list[Any] = []
        self.answer = b"{}"
        self.taken: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.batches: list[int] = []
        self.is_over = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/in"

    def ids(self) -> list[int]:
        return [event["id"] for event in self.taken]

    def end(self) -> None:
        self.is_over.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *args: Any) -> None:
        """A client that hangs up is what we test."""


class _Door(BaseHTTPRequestHandler):
    server: SiemReceiver

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        behaviour = self.server.behaviours.pop(0) if self.server.behaviours else 200
        if behaviour == "hang":
            self.server.is_over.wait()
            return
        if isinstance(behaviour, int) and behaviour != 200:
            self._reply(behaviour)
            return
        try:
            events = self.server.read(self.headers, body)
        except (AssertionError, ValueError, LookupError) as failure:
            self.server.refused.append(repr(failure))
            self._reply(400)
            return
        self.server.taken += events
        self.server.batches.append(len(events))
        if behaviour == "late":  # it has taken them, and nobody waits for the answer any more
            self.server.is_over.wait()
        elif behaviour != "cut":
            self._reply(200)

    def _reply(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)


def _json(headers: Any, body: str) -> list[dict[str, Any]]:
    assert headers["Content-Type"] == "application/x-ndjson"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert body.endswith("\n")
    return [json.loads(line) for line in body.splitlines()]


def _splunk(headers: Any, body: str) -> list[dict[str, Any]]:
    assert headers["Authorization"] == f"Splunk {TOKEN}"
    assert re.fullmatch(r"[0-9a-f-]{36}", headers["X-Splunk-Request-Channel"])
    items = [json.loads(line) for line in body.splitlines()]
    for item in items:
        assert set(item) == {"time", "host", "source", "sourcetype", "event"}
        assert re.fullmatch(r"\d{10}\.\d{6}", item["time"])
        assert item["time"].replace(".", "") == item["event"]["at"]
    return [item["event"] for item in items]


def _otlp(headers: Any, body: str) -> list[dict[str, Any]]:
    """As the published messages of OTLP read it, and narrower: 64-bit integers are text."""
    json_format.Parse(body, ExportLogsServiceRequest())  # raises for a member that it has not
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    (resource,) = json.loads(body).pop("resourceLogs")
    assert set(resource) == {"resource", "scopeLogs"}
    assert _attributes(resource["resource"])["service.name"] == "assent"
    (scope,) = resource["scopeLogs"]
    assert set(scope) == {"scope", "logRecords"}
    assert scope["scope"] == {"name": "assent.audit"}
    return [_log_record(record) for record in scope["logRecords"]]


def _log_record(record: dict[str, Any]) -> dict[str, Any]:
    of_record = {"timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText"}
    assert set(record) == of_record | {"eventName", "body", "attributes"}
    event: dict[str, Any] = json.loads(record["body"]["stringValue"])
    attributes = _attributes(record)
    assert record["timeUnixNano"] == f"{event['at']}000"
    assert record["severityNumber"] == 9
    assert attributes["log.record.uid"] == event["hash"]
    assert attributes["assent.event.id"] == str(event["id"])
    assert record["eventName"] == f"assent.{event['kind']}"
    return event


def _attributes(of: dict[str, Any]) -> dict[str, str]:
    values = {each["key"]: each["value"] for each in of["attributes"]}
    assert all(set(value) <= {"stringValue", "intValue"} for value in values.values())
    assert all(isinstance(text, str) for value in values.values() for text in value.values())
    return {key: next(iter(value.values())) for key, value in values.items()}


FORMS = {"json": _json, "splunk": _splunk, "otlp": _otlp}
