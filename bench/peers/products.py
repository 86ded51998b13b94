"""The products that are compared, each with the same payload and two processes.

A product is started with ``serving``; ``propose`` and ``approve`` build its requests, and
``effects`` tells when each effect happened, by the clock that the clients use too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.engines import ROOT, free_port, process
from bench.peers.load import Answer, Request, post

HOME = ROOT / ".assent" / "peers"
HERE = Path(__file__).resolve().parent
# About 600 bytes, as in the benchmark of A2A.
PAYLOAD = {"customer": "Ana Ruiz", "order": 1042, "lines": ["A lamp arrived broken."] * 20}


@dataclass(frozen=True, slots=True)
class Running:
    """A product at work. ``effects`` are names and seconds since the epoch; ``None``: unknown."""

    port: int
    database: str
    propose: Callable[[str], Request]
    approve: Callable[[Answer], Request]
    effects: Callable[[], list[tuple[str, float]]] | None


Serving = Callable[[], AbstractContextManager[Running]]


# --- Assent ----------------------------------------------------------------------------------


@contextmanager
def assent() -> Iterator[Running]:
    """One web process and one worker, as ``make up`` starts them."""
    from bench.peers.assent import agents, until_the_worker_listens

    port = free_port()
    proposer, supervisor, database = agents()
    listen = ("--port", str(port), "--workers", "1", "--log-level", "error")
    web = ("-m", "granian", "--interface", "asgi", *listen, "approvals.asgi:application")
    with (
        _outside_world() as effects,
        process(*web, port=port),
        process("manage.py", "work", PEER_EFFECTS=str(effects)),
    ):
        until_the_worker_listens()
        yield Running(
            port,
            database,
            partial(_propose_to_assent, {"Authorization": f"Bearer {proposer}"}),
            partial(_approve_at_assent, {"Authorization": f"Bearer {supervisor}"}),
            partial(_lines_of, effects),
        )


def _propose_to_assent(headers: Mapping[str, str], name: str) -> Request:
    body = {"tool": "supervised", "arguments": {"name": name, "payload": PAYLOAD}}
    return post(name, "/api/v1/transactions", body, {**headers, "Idempotency-Key": name})


def _approve_at_assent(headers: Mapping[str, str], answer: Answer) -> Request:
    token = answer.content
    path = f"/api/v1/transactions/{token['transaction_id']}/approve"
    body = {"intent_digest": token["intent_digest"]}
    return post(answer.name, path, body, {**headers, "Idempotency-Key": f"{answer.name}-yes"})


# --- the libraries ------------------------------------------------------------------------------


@contextmanager
def library(script: str) -> Iterator[Running]:
    """Two processes of ``script``, over a database of its own on the same server."""
    port, database = free_port(), script.removesuffix("_peer")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assent-bench-")))
        for name in (script, "serving"):
            shutil.copyfile(HERE / f"{name}.py", folder / f"{name}.py")
        effects = stack.enter_context(_outside_world())
        environment = {
            "PEER_PORT": str(port),
            "PEER_WORKERS": "2",
            "PEER_DATABASE": _database(database),
            "PEER_EFFECTS": str(effects),
            "PYTHONPATH": str(folder),
        }
        command = (str(folder / f"{script}.py"),)
        stack.enter_context(process(*command, port=port, python=_python(), **environment))
        yield Running(
            port,
            database,
            lambda name: post(name, "/propose", {"name": name, "payload": PAYLOAD}),
            lambda answer: post(answer.name, f"/approve/{answer.name}", {}),
            partial(_lines_of, effects),
        )


@contextmanager
def _outside_world() -> Iterator[Path]:
    """A file to which each effect appends a line: its name and its time."""
    with tempfile.NamedTemporaryFile(prefix="assent-bench-") as file:
        yield Path(file.name)


def _lines_of(path: Path) -> list[tuple[str, float]]:
    lines = [line.split() for line in path.read_text().splitlines()]
    return [(name, float(at)) for name, at in lines]


def _database(name: str) -> str:
    """The URL of a new database on the server of the benchmark."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        cursor.execute(f'CREATE DATABASE "{name}"')
    info = connection.get_connection_params()
    connection.close()
    return f"postgresql://{info.get('user', 'postgres')}@/{name}?host={info['host']}"


def _python() -> str:
    """The Python of their environment, which is rebuilt when requirements.txt changes."""
    python, installed = HOME / "bin" / "python", HOME / "installed.txt"
    wanted = HERE / "requirements.txt"
    if not installed.exists() or installed.read_text() != wanted.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(wanted)], check=True)
        shutil.copyfile(wanted, installed)
    return str(python)


# --- the A2A SDK's server -----------------------------------------------------------------------


@contextmanager
def a2a_sdk() -> Iterator[Running]:
    """One process of the SDK's server: an approval is the second message to a parked task."""
    from django.db import connection

    from bench import tasks

    headers = {"Authorization": f"Bearer {tasks.RIVAL_TOKEN}", "A2A-Version": "1.0"}
    with tasks.rival() as (url, _token, _pid):
        name_of_database = str(connection.settings_dict["NAME"])
        yield Running(
            int(url.split(":")[2].split("/")[0]),
            name_of_database,
            lambda name: _message(name, headers, {"skill": "park", "input": PAYLOAD}),
            lambda answer: _message(
                answer.name,
                headers,
                {"skill": "answer"},
                taskId=answer.content["result"]["task"]["id"],
            ),
            None,
        )


def _message(name: str, headers: Mapping[str, str], data: Any, **more: str) -> Request:
    message = {"messageId": os.urandom(16).hex(), "role": "ROLE_USER", "parts": [{"data": data}]}
    wait = {"returnImmediately": not more}
    params = {"message": {**message, **more}, "configuration": wait}
    body = {"jsonrpc": "2.0", "id": name, "method": "SendMessage", "params": params}
    return post(name, "/a2a/v1", body, headers)


PRODUCTS: dict[str, Serving] = {
    "assent": assent,
    "dbos": partial(library, "dbos_peer"),
    "langgraph": partial(library, "langgraph_peer"),
    "agent-ledger": partial(library, "agent_ledger_peer"),
    "a2a-sdk": a2a_sdk,
}
