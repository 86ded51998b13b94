"""The documentation site: it is built without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".venv-docs/installed").exists(), reason="needs `make site`"),
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two releases publish."""
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("sites")
    subprocess.run(["git", "clone", "-q", "--depth=1", ROOT.as_uri(), tree], check=True)
    os.symlink(ROOT / ".venv-docs", tree / ".venv-docs")
    release = ["make", "-o", ".venv-docs/installed", "site-release", f"SITES={folder}"]
    for version in ("0.2.0", "0.10.0rc1"):
        subprocess.run([*release, f"VERSION={version}"], cwd=tree, check=True)
    return folder


def test_every_page_and_the_code_that_it_links_is_there(published):
    pages = {path.stem for path in (published / "0.2.0").glob("*.html")}

    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= pages
    assert {"changelog", "contributing", "security"} <= pages
    assert (published / "0.2.0/source/examples/supervisor.py.html").exists()


def test_no_page_loads_anything_from_elsewhere(published):
    loaded = [
        tag
        for path in published.rglob("*.html")
        for tag in re.findall(r"<(?:script|link|img|source|iframe)\b[^>]*>", path.read_text())
    ]

    assert len(loaded) > 500
    assert [tag for tag in loaded if re.search(r"(?:src|srcset|href)=\"?(?:https?:)?//", tag)] == []
    styles = "".join(path.read_text() for path in published.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//", styles) == []


def test_the_menu_has_every_version_and_the_address_leads_to_the_newest_that_is_finished(
    published,
):
    menu = json.loads((published / "versions.json").read_text())

    assert [each["version"] for each in menu] == ["0.10.0rc1", "0.2.0"]
    assert [each["version"] for each in menu if "latest" in each["aliases"]] == ["0.2.0"]
    assert "url=0.2.0/" in (published / "index.html").read_text()
