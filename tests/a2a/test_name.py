"""Our room and the SDK's package share a name, and neither hides the other."""

from __future__ import annotations

from pathlib import Path

import a2a
from a2a import checks


def test_ours_comes_first():
    assert Path(a2a.__path__[0]) == checks.HERE


def test_nothing_of_ours_is_named_as_a_module_of_the_sdk():
    assert checks.check_name() == []


def test_a_clash_is_found(monkeypatch):
    monkeypatch.setattr(checks, "taken_by_sdk", lambda: frozenset({"apps"}))

    assert [error.id for error in checks.check_name()] == ["a2a.E001"]


def test_another_package_in_front_of_ours_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(a2a, "__path__", [str(tmp_path), *a2a.__path__])

    assert [error.id for error in checks.check_name()] == ["a2a.E002"]
