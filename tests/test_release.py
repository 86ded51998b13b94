"""What a release consists of: files that `make` writes, and the workflow that publishes them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from approvals import __version__

ROOT = Path(settings.BASE_DIR)
IMAGE = "registry.example/assent@sha256:" + "1" * 64
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
# CI has the group `release`; elsewhere it may be missing.
WITHOUT_TOOLS = importlib.util.find_spec("cyclonedx_py") is None and not os.environ.get("CI")


def make(target: str, folder: Path, *variables: str) -> None:
    command = ["make", "-s", "-o", ".venv/dev", target, f"DIST={folder}", *variables]
    subprocess.run(command, cwd=ROOT, check=True)


@pytest.mark.slow
@pytest.mark.skipif(WITHOUT_TOOLS, reason="the group `release` is not installed")
def test_the_bill_of_materials_names_every_locked_package_with_its_hashes(tmp_path):
    make("sbom", tmp_path)

    written = json.loads((tmp_path / f"assent-{__version__}.cdx.json").read_text())
    listed = {
        (part["name"], part["version"]): {
            line["content"] for each in part["externalReferences"] for line in each["hashes"]
        }
        for part in written["components"]
    }
    assert listed == locked()
    assert len(listed) > 60
    ours = written["metadata"]["component"]
    assert (ours["name"], ours["version"]) == ("assent", __version__)


def locked() -> dict[tuple[str, str], set[str]]:
    """The hashes of each package of the lock, by its name and version."""
    entries = re.split(r"^(?=\S)", (ROOT / "requirements.lock").read_text(), flags=re.M)
    pins = [re.match(r"([\w.-]+)(?:\[.*?\])?==([^\s;]+)", entry) for entry in entries]
    return {
        (pin[1], pin[2]): set(re.findall(r"sha256:(\w+)", entry))
        for pin, entry in zip(pins, entries, strict=True)
        if pin
    }


def test_compose_and_chart_of_a_release_name_the_image_by_its_digest(tmp_path):
    make("bundle", tmp_path, f"IMAGE={IMAGE}")

    with tarfile.open(tmp_path / f"assent-compose-{__version__}.tar.gz") as bundle:
        assert {Path(name).name for name in bundle.getnames()} == {
            *("", "compose.yaml", "Caddyfile", ".env.example")
        }
        compose: Any = yaml.safe_load(bundle.extractfile("./compose.yaml"))
    ours = {each["image"] for each in compose["services"].values() if "ASSENT_IMAGE" in str(each)}
    assert ours == {f"${{ASSENT_IMAGE:-{IMAGE}}}"}
    values = yaml.safe_load((tmp_path / "assent/values.yaml").read_text())
    chart = yaml.safe_load((tmp_path / "assent/Chart.yaml").read_text())
    assert values["image"] == IMAGE
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_nothing_is_published_before_every_test_has_passed():
    jobs = WORKFLOW["jobs"]

    assert jobs["test"]["uses"] == "./.github/workflows/ci.yml"
    assert set(jobs["image"]["needs"]) == {"test", "build"}
    assert jobs["pypi"]["needs"] == ["image"]
    assert set(jobs["release"]["needs"]) == {"image", "pypi"}


def test_what_may_publish_runs_only_code_that_cannot_change_under_its_name():
    steps = [step for job in WORKFLOW["jobs"].values() for step in job.get("steps", ())]
    used = [step["uses"] for step in steps if "uses" in step]

    assert len(used) > 10
    assert [each for each in used if not re.search(r"@[0-9a-f]{40}$", each)] == []
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["jobs"]["pypi"]["permissions"] == {"id-token": "write"}
