"""Lighthouse on the pages of each place: ``make lighthouse``.

Starts the product with a scene of its own, signs a person in, and runs Google's Lighthouse, which
npm fetches into a folder that is thrown away. Prints each score beside its limit; exits with 1
where one is missed. Performance depends on what else the machine does: run it alone.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
VERSION = "12.8.2"
LIMIT = 95
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
FORMS = {"phone": (), "desktop": ("--preset=desktop",)}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        tool = installed(Path(folder))
        environment = os.environ | {"LIGHTHOUSE": str(tool), "LIGHTHOUSE_OUT": folder}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/e2e/test_lighthouse.py"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        return report(Path(folder))


def installed(folder: Path) -> Path:
    """Lighthouse's command, fetched with npm."""
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*npm, f"lighthouse@{VERSION}"], check=True)
    return folder / "node_modules" / ".bin" / "lighthouse"


@contextmanager
def signed_in_browser(address: str, session: str, chromium: str) -> Iterator[int]:
    """A browser with this session, also for its WebSocket; the port where it takes orders."""
    port = free_port()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", f"--remote-debugging-port={port}"],
        )
        context.add_cookies([{"name": "assent_session", "value": session, "url": address}])
        yield port
        context.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def audit(tool: str, address: str, port: int, form: str, out: Path) -> None:
    """Run Lighthouse on one page, in the browser at this port; its report is written to ``out``."""
    command = [tool, address, "--output=json", f"--output-path={out}", "--quiet"]
    command += [f"--port={port}", f"--only-categories={','.join(CATEGORIES)}", *FORMS[form]]
    subprocess.run(command, check=True, timeout=300)


def report(folder: Path) -> int:
    """Print every score; 1 where one is below the limit."""
    missed = 0
    for file in sorted(folder.glob("*.report.json")):
        scores = scores_of(json.loads(file.read_text()))
        missed += any(score < LIMIT for score in scores.values())
        words = "  ".join(f"{name} {score:3}" for name, score in scores.items())
        print(f"{file.name.removesuffix('.report.json'):<18} {words}")
    print(f"limit {LIMIT}: {'missed' if missed else 'kept'}")
    return int(missed > 0)


def scores_of(told: dict[str, dict[str, dict[str, float | None]]]) -> dict[str, int]:
    return {
        name: round(100 * (category["score"] or 0)) for name, category in told["categories"].items()
    }


if __name__ == "__main__":
    sys.exit(main())
