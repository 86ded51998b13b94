"""Copies of the product's tree; among them a made-up later release, with more migrations."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.processes import ROOT

LATER = Path(__file__).parent / "later" / "migrations"
LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv*",
    ".cache",
    ".assent*",
    "node_modules",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    ".import_linter_cache",
    "staticfiles",
)
BUILT = {"build", "dist", "site"}  # by make, at the top


def copy_to(home: Path) -> Path:
    """Copy the tree to a new folder, which PostgreSQL's user can reach."""
    shutil.copytree(ROOT, home, ignore=_left_out)
    for folder in home.parents:
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)  # PostgreSQL gives up its privileges
    return home


def _left_out(folder: str, names: list[str]) -> set[str]:
    built = BUILT if Path(folder) == ROOT else set()
    return LEFT_OUT(folder, names) | built.intersection(names)


def later_release(home: Path) -> Path:
    """Copy the tree, and add the migrations of ``later/``."""
    copy_to(home)
    shutil.copytree(LATER, home / "ledger" / "migrations", dirs_exist_ok=True)
    return home


def bare_environment() -> dict[str, str]:
    """The environment of this process, without addresses and keys."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"DATABASE_URL", "REDIS_URL"} and not name.startswith("ASSENT_")
    }
