"""Agents and clients built on other libraries, with which our own are tried."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

JAVASCRIPT = Path(__file__).parent / "javascript"


def javascript_client() -> list[str]:
    """The command of the JavaScript client; its one package is installed when first asked for."""
    with (JAVASCRIPT / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may ask at once
        if not (JAVASCRIPT / "node_modules" / "@a2a-js").exists():
            npm = shutil.which("npm") or "npm"
            subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=JAVASCRIPT, check=True)
    return [shutil.which("node") or "node", str(JAVASCRIPT / "client.mjs")]
