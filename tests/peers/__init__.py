"""Agents and clients built on other libraries, with which our own are tried."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parent
CLIENT = PEERS.parent.parent / "examples" / "typescript"
ENVIRONMENTS = PEERS.parent.parent / ".assent" / "peers"


def javascript_client(
    name: str = "javascript", package: str = "@a2a-js", script: str = "client.mjs"
) -> list[str]:
    """The command of a JavaScript client; its one package is installed when first asked for."""
    return [shutil.which("node") or "node", str(installed(name, package) / script)]


def installed(name: str, package: str) -> Path:
    """The folder of a JavaScript peer, with its packages."""
    folder = PEERS / name
    with (folder / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may ask at once
        if not (folder / "node_modules" / package).exists():
            npm = shutil.which("npm") or "npm"
            subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=folder, check=True)
    return folder


def typescript_client() -> Path:
    """The folder of our client in TypeScript, built from what stands there now."""
    with (CLIENT / "tsconfig.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        npm = shutil.which("npm") or "npm"
        for command in ("ci --no-audit --no-fund", "run build"):
            subprocess.run([npm, *command.split()], cwd=CLIENT, check=True)
    return CLIENT


def python_client(name: str) -> list[str]:
    """The command of a client in Python, in a virtual environment of its own, made when asked for.

    Its packages would not install beside ours (other versions of the SDK and of protobuf). Skips
    the test where the registry is out of reach; in CI that is a failure.
    """
    folder = PEERS / name
    python = python_with(name, folder / "requirements.txt")
    return [str(python), "-I", str(folder / "client.py")]


def python_with(name: str, requirements: Path) -> Path:
    """A Python with what ``requirements`` pins, each with what it needs itself."""
    wanted = requirements.read_bytes() + sys.version.encode()
    home = ENVIRONMENTS / f"{name}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            _make_environment(home, requirements)
    return home / "bin" / "python"


def _make_environment(home: Path, requirements: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q"]
    options = ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*pip, *options, "-r", str(requirements)], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        (home / "complete").touch()
        return
    shutil.rmtree(home, ignore_errors=True)
    if os.environ.get("CI"):
        raise AssertionError(f"{requirements} did not install: {done.stderr[-2000:]}")
    pytest.skip(f"{requirements} did not install: {done.stderr.strip()[-200:]}")
