"""The wheel: one package that works beside the A2A SDK, whichever was installed first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from approvals import __version__

ROOT = Path(__file__).resolve().parents[1]
SDK = next(
    line.split()[0]
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if line.startswith("a2a-sdk")
)
SDK = re.sub(r"\[.*\]", "", SDK)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    subprocess.run(["git", "clone", "-q", "--depth=1", ROOT.as_uri(), tree], check=True)
    os.symlink(ROOT / ".venv", tree / ".venv")
    subprocess.run(["make", "-o", ".venv/dev", "wheel"], cwd=tree, check=True)
    [built] = (tree / "dist").glob("assent-*.whl")
    return built


def installed(folder: Path, *packages: str | Path) -> Path:
    """The ``bin`` of a new environment with these; what they depend on is this one's."""
    venv.create(folder, with_pip=True)
    for package in packages:
        install = [folder / "bin" / "pip", "install", "-q", "--no-deps", package]
        subprocess.run(install, check=True)
    [site_packages] = (folder / "lib").glob("python*/site-packages")
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (site_packages / "what_they_depend_on.pth").write_text(ours)
    return folder / "bin"


def said(*command: str | Path, **variables: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **variables}
    return subprocess.check_output(command, text=True, env=environment, cwd="/")


def test_it_has_one_package_and_all_that_pages_need(wheel):
    names = ZipFile(wheel).namelist()

    assert {name.partition("/")[0] for name in names} == {
        "assent",
        f"assent-{__version__}.dist-info",
    }
    for part in (
        "approvals/locale/de/LC_MESSAGES/django.mo",
        "templates/base.html",
        "staticfiles/staticfiles.json",
        "examples/tools/tools.py",
        "manage.py",
    ):
        assert f"assent/house/{part}" in names
    assert not [name for name in names if "/tests/" in name or name.endswith(".pyc")]


@pytest.mark.parametrize("is_first", [True, False], ids=["before the SDK", "after the SDK"])
def test_it_works_beside_the_a2a_sdk(wheel, tmp_path, is_first):
    packages = [wheel, SDK] if is_first else [SDK, wheel]
    programs = installed(tmp_path / "venv", *packages)

    assert said(programs / "assent", "version").strip() == __version__
    checked = said(
        *(programs / "assent", "manage", "check"), ASSENT_SECRET_KEY="x" * 60, ASSENT_DEBUG="1"
    )
    assert "no issues" in checked
    of_sdk = said(programs / "python", "-c", "import a2a, a2a.types; print(a2a.__path__)")
    assert "house" not in of_sdk


def test_the_client_in_python_is_a_package_of_the_very_file(tmp_path):
    source = ROOT / "examples" / "frameworks"
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", tmp_path]
    subprocess.run([*build, source], check=True)
    [built] = tmp_path.glob(f"assent_client-{__version__}-*.whl")
    python = installed(tmp_path / "environment", built) / "python"

    program = "import assent_client as one; print(one.Assent and one.__file__)"
    file = Path(said(python, "-c", program).strip())

    assert tmp_path / "environment" in file.parents
    assert file.read_bytes() == (source / "assent_client.py").read_bytes()
    said(python, "-c", "from assent_development import DevelopmentDesk; DevelopmentDesk({})")
