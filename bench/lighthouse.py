"""Lighthouse on the pages that people open most: ``make lighthouse``.

Starts the product with a scene of its own, signs a person in, and runs Google's Lighthouse, which
npm fetches into a folder that is thrown away. Prints each score beside its limit; exits with 1
where one is missed. Performance depends on what else the machine does: run it alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

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


def audit(tool: str, address: str, cookie: str, form: str, out: Path, chromium: str) -> None:
    """Run Lighthouse on one page as the person of this cookie; its report is written to ``out``."""
    headers = json.dumps({"Cookie": cookie})
    command = [tool, address, "--output=json", f"--output-path={out}", "--quiet"]
    command += [f"--extra-headers={headers}", *FORMS[form]]
    command += [f"--only-categories={','.join(CATEGORIES)}"]
    command += ["--chrome-flags=--headless=new --no-sandbox --disable-gpu"]
    environment = os.environ | {"CHROME_PATH": chromium}
    subprocess.run(command, check=True, env=environment, timeout=300)


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
