"""The log as programs read it: one object on a line, and what each line is about."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from approvals.http.admission.request_log import RequestLog
from approvals.http.log_lines import InBackground, JsonLines, PlainLines, WithoutLinks
from ledger.foundation.lanes import Lane
from ledger.foundation.telemetry import log_context
from tests.processes import until

logger = logging.getLogger("tests.log_lines")


@pytest.fixture
def written(caplog) -> Any:
    """The lines that were logged, as objects."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(WithoutLinks())
    loggers = [logger, logging.getLogger("assent.requests")]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for each in loggers:
        each.removeHandler(handler)


def requested(
    inside: Any, path: str = "/api/v1/tools", method: str = "GET", **headers: str
) -> dict[bytes, bytes]:
    """Ask ``inside`` behind the log; the headers of the answer."""
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": sent}
    asyncio.run(RequestLog(inside)(scope, None, send))
    return dict(told[0]["headers"])


async def answers(scope: Any, receive: Any, send: Any) -> None:
    log_context.note(principal="agent:acme/helpdesk", tenant="acme")
    logger.warning("at work")
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_each_request_is_one_line_with_whose_it_was(written):
    answer = requested(answers)

    inner, line = written()
    assert line["message"].startswith("GET /api/v1/tools 404 in ")
    assert (line["level"], line["status"], line["path"]) == ("INFO", 404, "/api/v1/tools")
    assert line["time"].endswith("Z")
    assert line["tenant"] == inner["tenant"] == "acme"
    assert line["principal"] == "agent:acme/helpdesk"
    assert line["request_id"] == inner["request_id"] == answer[b"request-id"].decode()


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["manage.py", "work", "--only", "deliver"], "work"),
        (["assent manage", "migrate"], "migrate"),
        (["/srv/assent/venv/bin/granian", "--ws"], "web"),
    ],
)
def test_a_line_says_which_process_wrote_it(monkeypatch, argv, program):
    monkeypatch.setattr(sys, "argv", argv)

    line = json.loads(JsonLines().format(logging.makeLogRecord({"msg": "done"})))

    assert line["process"].partition(":")[0] == program


def test_a_client_chooses_the_id_by_which_it_finds_its_request(written):
    assert requested(answers, request_id="order-17")[b"request-id"] == b"order-17"
    assert written()[-1]["request_id"] == "order-17"


@pytest.mark.parametrize("chosen", ["", "a b", "a\nb", "x" * 65, "ä"])
def test_an_id_that_could_forge_a_line_is_not_taken(written, chosen):
    assert requested(answers, request_id=chosen)[b"request-id"] != chosen.encode()


@pytest.mark.parametrize("begin", ["/join/", "/account/email/"])
def test_links_that_open_an_account_stand_in_no_line(written, begin):
    requested(answers, path=f"{begin}secret-token/")

    line = written()[-1]
    assert "secret-token" not in json.dumps(line)
    assert line["path"] == f"{begin}…/"


@pytest.mark.parametrize(
    "bad", ["\n", "\r", "\x1b[2J", "\x9b2J", "\x85", "\u2028", "\u202e", "\udcff"]
)
@pytest.mark.parametrize("form", [JsonLines, PlainLines])
def test_a_stranger_begins_no_line_and_moves_no_terminal(form, bad):
    record = {"name": "a", "levelname": "INFO", "msg": f"GET /a{bad}CRITICAL all is lost ü"}

    line = form().format(logging.makeLogRecord(record))

    assert not [at for at in line.splitlines() if at.startswith("CRITICAL")]
    assert bad == "\n" or bad not in line
    assert "ü".encode() in line.encode()


def test_a_path_of_a_stranger_is_told_in_part_and_its_method_only_if_it_is_one(written):
    requested(answers, path="/" + "\udcff" * 40_000, method="B" * 3000)

    line = written()[-1]
    assert len(json.dumps(line)) < 4096
    assert line["path"].startswith("/\\udcff")
    assert line["method"] == "other"


def test_a_request_that_fails_has_its_line(written):
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        asyncio.run(
            RequestLog(fails)(
                {"type": "http", "method": "GET", "path": "/", "headers": []}, None, None
            )
        )

    assert written()[-1]["status"] == 0


def test_threads_that_work_for_a_request_write_lines_of_it(written):
    lane = Lane("test", 1)
    with log_context.about(request_id="r1") as names:
        lane.start("", lambda: (log_context.note(tenant="acme"), logger.info("done"))).result(5)

    assert written()[0]["request_id"] == "r1"
    assert names["tenant"] == "acme"


def test_an_error_keeps_its_traceback_on_the_line(written):
    try:
        raise ValueError("wrong")
    except ValueError:
        logger.exception("it failed")

    [line] = written()
    assert line["message"] == "it failed"
    assert "ValueError: wrong" in line["error"]


def test_who_reads_the_log_too_slowly_loses_lines_and_stops_nothing():
    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            allowed.wait()
            return super().write(text)

    import threading

    allowed, stream = threading.Event(), Slow()
    handler = InBackground()
    handler.MOST, handler.stream = 2, stream
    for number in range(10):
        handler.emit(logging.makeLogRecord({"msg": f"line {number}"}))
    allowed.set()
    until(lambda: "line 1\n" in stream.getvalue())
    handler.emit(logging.makeLogRecord({"msg": "the last"}))

    until(lambda: "the last\n" in stream.getvalue())
    assert "lines were lost" in stream.getvalue()
    assert "line 9" not in stream.getvalue()


def test_requests_are_counted_by_their_part_and_not_by_what_strangers_ask_for(settings, tmp_path):
    """In a process of its own: the client library is told before it is imported."""
    script = """
import django; django.setup()
from approvals.http.admission.request_log import count_request
from approvals.metrics import as_prometheus, count_sign_in
for path in ("/api/v1/tools", "/anything/that/somebody/tries"):
    count_request({"method": "BREW", "path": path, "query_string": b""}, 404, 0.02)
count_sign_in("refused")
print(as_prometheus({}))
"""
    environment = {**os.environ, "ASSENT_METRICS_FOLDER": str(tmp_path)}
    environment["DJANGO_SETTINGS_MODULE"] = "approvals.settings"
    told = subprocess.check_output([sys.executable, "-c", script], env=environment, text=True)

    for part in ("rest", "pages"):
        counted = f'method="other",part="{part}",status="404"'
        assert f"assent_http_request_seconds_count{{{counted}}} 1.0" in told
    assert 'assent_sign_ins_total{outcome="refused"} 1.0' in told
    assert "anything" not in told
