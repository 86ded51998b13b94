"""What a minor version promised, the next one still has (docs/compatibility.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.names import Names, offered, read, written

RELEASES = sorted(Path(__file__).parent.glob("names-*.txt"))
# Said by a document and never sent: each change has always had `from` and `to`.
NEVER_SENT = {"members ChangeOut": {"before", "after"}}


@pytest.fixture(scope="module")
def now() -> Names:
    return offered()


@pytest.mark.parametrize("release", RELEASES, ids=[path.stem for path in RELEASES])
def test_every_name_that_a_release_had_is_there_and_no_request_needs_more(release, now):
    promised = read(release)

    assert sum(map(len, promised.values())) > 1000
    for group, names in NEVER_SENT.items():
        promised[group] -= names
    assert broken(promised, now) == {}


def broken(promised: Names, now: Names) -> Names:
    """Names that are gone, and members that a request did not need before."""
    faults = {}
    for group, names in promised.items():
        is_needed, present = group.startswith("needed "), now.get(group, set())
        if lost := present - names if is_needed else names - present:
            faults[group] = lost
    added = {group for group in now if group.startswith("needed ")} - set(promised)
    known = {group.removeprefix("members ") for group in promised if group.startswith("members ")}
    return faults | {group: now[group] for group in added if group.removeprefix("needed ") in known}


@pytest.mark.parametrize(
    ("before", "after", "is_noticed"),
    [
        ({"events": {"a"}}, {"events": {"a", "b"}}, False),
        ({"events": {"a", "b"}}, {"events": {"a"}}, True),
        ({"members AIn": {"x"}}, {}, True),
        ({"needed AIn": {"x"}}, {"needed AIn": set()}, False),
        ({"needed AIn": {"x"}}, {"needed AIn": {"x", "y"}}, True),
        ({"members AIn": {"x"}}, {"members AIn": {"x"}, "needed AIn": {"x"}}, True),
        ({}, {"members AIn": {"x"}, "needed AIn": {"x"}}, False),
    ],
)
def test_a_broken_promise_is_noticed(before, after, is_noticed):
    assert bool(broken(before, after)) == is_noticed


def test_names_that_were_written_are_read(now, tmp_path):
    file = tmp_path / "names.txt"
    file.write_text(written(now))

    assert read(file) == now
