"""What pyproject.toml declares is what the code imports, the locks pin and the papers say."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import approvals

ROOT = Path(settings.BASE_DIR)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OWN = {"approvals", "ledger", "tests", "examples", "bench", "manage"}
PRODUCT = ("approvals", "a2a", "ledger", "examples")
# Several distributions install modules below one name; the longest comes first.
SHARED = {
    "google.protobuf": "protobuf",
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.proto": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry": "opentelemetry-api",
}
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def imported(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Names of the distributions that are imported, each with a file that does."""
    distributions = packages_distributions()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            else:
                continue
            for module in modules:
                package = module.partition(".")[0]
                if package in OWN | sys.stdlib_module_names | {"a2a"}:
                    continue  # a2a is the SDK's package as well as our room, and declared
                shared = (owner for name, owner in SHARED.items() if module.startswith(name))
                owner = next(shared, distributions.get(package, [package])[0])
                yield canonicalize_name(owner), f"{path.relative_to(ROOT)}: {package}"


def declared(*groups: str) -> dict[str, Requirement]:
    lines = list(PROJECT["project"]["dependencies"])
    for group in groups:
        lines += PROJECT["dependency-groups"][group]
    requirements = map(Requirement, lines)
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


@pytest.mark.slow
def test_every_package_that_the_product_imports_is_declared():
    # The one has a group of its own, the others environments.
    apart = {ROOT / "examples/supervisor.py", ROOT / "examples/frameworks"}
    files = [path for room in PRODUCT for path in (ROOT / room).rglob("*.py")]
    files = [path for path in files if not apart & {path, *path.parents}]
    used = dict(imported(files))

    assert {"django", "pyjwt", "protobuf", "starlette"} <= set(used)
    for extra in PROJECT["project"]["optional-dependencies"].values():
        for requirement in extra:
            used.pop(canonicalize_name(Requirement(requirement).name), None)
    assert {name: where for name, where in used.items() if name not in declared()} == {}


@pytest.mark.slow
def test_every_package_that_the_tests_import_is_declared():
    # What has an environment of its own.
    apart = {
        ROOT / "tests/peers",
        ROOT / "tests/frameworks",
        ROOT / "bench/peers",
        ROOT / "bench/a2a_rival.py",
    }
    files = [
        path
        for folder in ("tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        if not apart & {path, *path.parents}
    ]
    used = dict(imported(files))

    assert {
        name: where
        for name, where in used.items()
        if name not in declared("dev", "supervisor", "release")
    } == {}


def test_every_package_that_the_supervisor_imports_is_in_its_group_or_the_product():
    used = dict(imported([ROOT / "examples/supervisor.py"]))

    assert "pydantic-ai-slim" in used
    assert set(used) <= set(declared("supervisor"))


@pytest.mark.parametrize(
    ("lock", "groups"),
    [("requirements.lock", []), ("requirements-dev.lock", ["dev", "supervisor", "release"])],
)
def test_the_lock_pins_every_declared_package_within_its_limits(lock, groups):
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^ ;]+)", (ROOT / lock).read_text(), re.M)
    versions = {canonicalize_name(name): Version(version) for name, version in pins}

    for name, requirement in declared(*groups).items():
        assert requirement.specifier.contains(versions[name]), f"run `make lock`: {requirement}"


def lacking(wanted: Iterable[Requirement]) -> set[str]:
    """What is not installed, or in no version that fits, of all that these need with extras."""
    todo, seen, missing = list(wanted), set(), set()
    while todo:
        requirement = todo.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            has = requirement.specifier.contains(version(requirement.name), prereleases=True)
        except PackageNotFoundError:
            has = False
        if not has:
            missing.add(str(requirement))
            continue
        for inner in map(Requirement, requires(requirement.name) or ()):
            extras = ("", *requirement.extras)
            if not inner.marker or any(inner.marker.evaluate({"extra": each}) for each in extras):
                todo.append(inner)
    return missing


def test_the_lock_has_all_that_its_packages_need():
    """It is installed as it is: pip looks for nothing that it leaves out."""
    wanted = declared("dev", "supervisor", "release").values()
    here = [each for each in wanted if not each.marker or each.marker.evaluate()]

    assert lacking([Requirement("pip[no-such-extra]<1")]) == {"pip[no-such-extra]<1"}
    assert lacking(here) == set()


def test_the_newest_entry_of_the_changelog_is_of_this_version():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    newest = re.fullmatch(r"(\d+\.\d+\.\d+) \((unreleased|\d{4}-\d\d-\d\d)\)", headings[0])

    assert newest, headings[0]
    assert newest[1] == approvals.__version__ == settings.VERSION


def test_the_version_stands_in_one_place():
    declared_at = PROJECT["tool"]["hatch"]["version"]["path"]
    repeats = re.compile(rf"""["']v?{re.escape(approvals.__version__)}["']""")
    files = [path for room in PRODUCT for path in (ROOT / room).rglob("*.py")]

    assert (PROJECT["project"]["dynamic"], declared_at) == (["version"], "approvals/__init__.py")
    assert "version" not in PROJECT["project"]
    assert [path for path in files if repeats.search(path.read_text())] == [
        ROOT / "approvals/__init__.py"
    ]


def test_the_supported_versions_of_python_agree_everywhere():
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.15"
    makefile = (ROOT / "Makefile").read_text()
    searched = re.search(r"for python in (.*); do", makefile)
    assert searched
    assert sorted(re.findall(r"python(3\.\d+)", searched[1])) == PYTHONS
    assert "(3, 11) <= sys.version_info[:2] <= (3, 14)" in makefile
    assert "Python 3.11 to 3.14" in (ROOT / "README.md").read_text()
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert workflow["jobs"]["run"]["strategy"]["matrix"]["python"] == PYTHONS
    on_path = re.search(r"for version in (.*); do", (ROOT / ".ci/run").read_text())
    assert on_path
    assert on_path[1].split() == PYTHONS
    image = re.search(r"^ARG BASE=python:(3\.\d+)-", (ROOT / "Dockerfile").read_text(), re.M)
    assert image
    assert image[1] in PYTHONS


def test_a_commit_runs_every_step_of_make_check():
    steps = re.search(r"^check: (.*?) ##", (ROOT / "Makefile").read_text(), re.M)
    assert steps
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]

    assert [hook["entry"] for hook in local["hooks"]] == [
        f"make {step}" for step in steps[1].split()
    ]
