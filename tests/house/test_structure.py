"""The structure of the product: packages, floors and folders, counted from the imports."""

from __future__ import annotations

import pytest

from tests.house import structure
from tests.house.source import ROOMS

MOST_PARTS_OF_LEDGER = 20
MOST_FLOORS = 8
MOST_MODULES_IN_A_FOLDER = 12
MOST_DOORS = 3
MOST_OF_MODULES = 0.4
# Shelves: modules that have nothing to do with each other. A common door would hide nothing.
SHELVES = {
    "ledger.foundation": "lanes, back-off, the doorbell, characters: each a small library",
    "ledger.foundation.telemetry": "names on log lines, counters, traces: one each",
    "ledger.foundation.crypto": "encryption, Merkle trees, signed notes, keys: one format each",
}


def test_few_packages_stand_right_below_the_ledger():
    assert len(structure.parts_of("ledger")) <= MOST_PARTS_OF_LEDGER


@pytest.mark.parametrize("room", ROOMS)
def test_the_packages_of_a_room_stand_on_few_floors_without_a_circle(room):
    assert len(structure.floors_of(room)) <= MOST_FLOORS


def test_a_circle_is_noticed(monkeypatch):
    both = {"a": {"b"}, "b": {"a"}}
    monkeypatch.setattr(structure, "imports_between", lambda container: both)
    monkeypatch.setattr(structure, "parts_of", lambda container: {"a", "b"})

    with pytest.raises(ValueError, match="a circle among a, b"):
        structure.floors_of("ledger")


def test_no_folder_has_more_modules_than_one_can_look_over():
    folders = structure.modules_per_folder()
    full = {folder for folder, number in folders.items() if number > MOST_MODULES_IN_A_FOLDER}

    assert full == set()


def test_the_ledgers_foundation_imports_nothing_of_the_product():
    graph = structure.graph()
    inside = graph.find_descendants("ledger.foundation") | {"ledger.foundation"}
    imported = {other for each in inside for other in graph.find_modules_directly_imported_by(each)}

    assert imported <= inside


def test_packages_are_entered_by_few_doors():
    packages = set(structure.packages()) - set(SHELVES)
    doors = {package: len(structure.doors_of(package)) for package in packages}
    most = {
        package: min(MOST_DOORS, max(1, int(MOST_OF_MODULES * len(structure.modules_in(package)))))
        for package in doors
    }
    open_ = {package: number for package, number in doors.items() if number > most[package]}

    assert open_ == {}
