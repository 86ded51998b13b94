"""Settings, processes and queues: one list of each, and the documents that repeat it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from approvals import processes
from ledger.workers import queues
from tests.house.source import parsed

ROOT = Path(settings.BASE_DIR)
ROOMS = [path for room in ("ledger", "a2a", "approvals") for path in (ROOT / room).rglob("*.py")]


# Of other standards; they need no entry of ours.
STANDARD = {
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "XDG_DATA_HOME",
}
VARIABLE = re.compile(r"ASSENT_[A-Z0-9_]*[A-Z0-9]|DATABASE_URL|REDIS_URL")


def product_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in [ROOT / "manage.py", *ROOMS, *(ROOT / "examples").rglob("*.py")]:
        yield str(path.relative_to(ROOT)), parsed(path.read_text())


def read_keys(tree: ast.AST) -> Iterator[ast.expr]:
    """The key of each look into ``os.environ``; setting a variable is none."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=key, ctx=ast.Load()):
                yield key
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ"), attr=method)):
                if method in {"get", "pop"}:
                    yield node.args[0]
            case ast.Call(func=ast.Attribute(attr="getenv") | ast.Name(id="getenv")):
                yield node.args[0]
            case ast.Compare(left=key, comparators=[ast.Attribute(attr="environ")]):
                yield key


def variables_read() -> set[str]:
    """By name, be it beside ``os.environ``, in a table of names or in a helper of the settings."""
    names = set()
    for _, tree in product_modules():
        names |= {key.value for key in read_keys(tree) if isinstance(key, ast.Constant)}
        names |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and VARIABLE.fullmatch(node.value)
        }
    return {name for name in names if names.isdisjoint({_without_file(name)} - {name})}


def _without_file(name: str) -> str:
    """Every variable may also come as ``<name>_FILE``."""
    return name.removesuffix("_FILE")


def test_every_environment_variable_is_documented_and_in_the_example():
    page = (ROOT / "docs/operators-settings.md").read_text()
    documented = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", page, re.M))
    example = set(re.findall(r"^#? ?([A-Z0-9_]+)=", (ROOT / ".env.example").read_text(), re.M))

    assert documented == variables_read() - STANDARD
    # Compose's own besides.
    assert example == documented | {"ASSENT_IMAGE", "POSTGRES_PASSWORD", "REDIS_PASSWORD"}


def test_only_the_settings_read_a_variable_whose_name_is_not_written_beside_it():
    """Or the test above could not see it. Documents name the variables that hold their secrets."""
    dynamic = {
        name
        for name, tree in product_modules()
        if any(not isinstance(key, ast.Constant) for key in read_keys(tree))
    }

    assert dynamic == {
        "approvals/configuration/environment.py",
        "approvals/declared/kinds.py",
        "approvals/settings.py",
    }


def compose_services() -> dict[str, dict[str, Any]]:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return {
        name: service for name, service in services.items() if "ASSENT_IMAGE" in service["image"]
    }


def test_compose_starts_the_processes_of_the_list_with_their_commands():
    services = compose_services()
    image = json.loads(re.search(r"^CMD (.*)$", (ROOT / "Dockerfile").read_text(), re.M)[1])
    proxied = re.findall(r"dynamic a (\w+) (\d+)", (ROOT / "Caddyfile").read_text())

    assert set(services) == {process.name for process in processes.PROCESSES}
    for process in set(processes.PROCESSES) - {processes.WEB}:
        assert services[process.name]["command"] == ["assent", "run", process.name]
    assert "command" not in services["web"], "it runs what the image runs"
    assert image == ["assent", "run", "web", "--host", "0.0.0.0", "--port", "8000"]
    assert proxied == [("web", "8000")]


def test_compose_gives_a_secret_to_its_own_process_alone():
    services = compose_services()

    for process in processes.PROCESSES:
        environment = services[process.name]["environment"]
        given = {name for name in processes.SECRETS if environment[name] != ""}
        assert given == process.secrets, process.name


def test_no_container_of_ours_is_root_writes_its_own_files_or_gains_rights():
    user = re.search(r"^USER (.*)$", (ROOT / "Dockerfile").read_text(), re.M)[1]
    contained = {
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": ["/tmp"],
    }

    assert user == "10001:0", "a number, so that Kubernetes sees that it is not root"
    for name, service in compose_services().items():
        assert contained.items() <= service.items(), name


def test_images_of_others_are_named_by_their_digest():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    images = {service["image"] for service in services.values()} - {"${ASSENT_IMAGE:-assent}"}
    images.add(re.search(r"^ARG BASE=(.*)$", (ROOT / "Dockerfile").read_text(), re.M)[1])

    assert len(images) == 4
    assert [each for each in images if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", each)] == []


def test_the_operators_page_lists_the_secrets_of_each_process():
    page = (ROOT / "docs/operators-audit-and-keys.md").read_text()

    for process in processes.PROCESSES:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{process.name}` | `"))
        listed = {f"ASSENT_{name}" for name in re.findall(r"`(\w+)`", row.split("|")[2])}
        assert listed == process.secrets, process.name


def test_every_queue_has_its_job_and_one_process_that_serves_it():
    served = [name for process in processes.PROCESSES for name in process.queues]

    assert sorted(served) == sorted(settings.RQ_QUEUES) == sorted(queues.JOBS)
    assert set(served) == set(processes.QUEUES)


def test_the_operators_page_lists_the_processes_and_their_queues():
    page = (ROOT / "docs/operators-first-day.md").read_text()
    rows = dict(re.findall(r"^\| (\w+)[^|]*\| (.*?) \|", page.partition("| process |")[2], re.M))

    for process in set(processes.PROCESSES) - {processes.MIGRATE}:
        arguments = [part for part in process.command if part != "-m"]
        assert f"`{' '.join(arguments)}`" in rows[process.name]
