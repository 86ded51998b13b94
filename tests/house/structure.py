"""Figures of the product's structure, from its files and its imports.

``python -m tests.house.structure`` prints them; ``test_structure.py`` keeps them within limits.
The **rooms** are ``ledger``, ``a2a`` and ``approvals``; a **package** is what stands inside them.
The packages (and lone modules) right below a room stand on **floors**: each on one above all that
it imports. A **door** is a module of a package that modules outside the package import. Wiring
(apps, URLs, settings, servers) may enter anywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from grimp import ImportGraph, build_graph

from tests.house.source import ROOMS, ROOT

# Parts of a room that Django asks for.
DJANGOS_OWN = frozenset({"apps", "management", "migrations"})
WIRING = frozenset({"apps", "urls", "asgi", "wsgi", "api", "settings"})
OPTIONAL = (
    "a2a/doors/git_bus",
    "a2a/doors/humanlayer",
    "a2a/doors/mcp_server",
    "approvals/insight",
    "approvals/local",
    "approvals/scim",
    "approvals/slack",
    "approvals/conformance",
    # Pages of optional apps, which are imported only where these are installed.
    "approvals/admin/git_bus",
    "approvals/web/operations/bus_orders.py",
    "approvals/web/operations/bus_requests.py",
    "approvals/web/operations/buses.py",
    "approvals/web/settings/connections/bus_forms.py",
    "approvals/web/settings/connections/buses.py",
    "approvals/web/settings/connections/functions.py",
)


@cache
def graph() -> ImportGraph:
    return build_graph(*ROOMS, exclude_type_checking_imports=True, cache_dir=None)


def packages() -> Iterator[str]:
    """The packages with modules, but for those of Django's own making."""
    for module in sorted(graph().modules):
        parts = set(module.split("."))
        if graph().find_children(module) and "." in module and not parts & DJANGOS_OWN:
            yield module


def modules_in(package: str) -> set[str]:
    """The modules right inside the package, with the package itself."""
    children = graph().find_children(package)
    return {child for child in children if not graph().find_children(child)} | {package}


def doors_of(package: str) -> set[str]:
    """The modules right inside the package that others import."""
    inside = graph().find_descendants(package) | {package}
    return {
        module
        for module in modules_in(package)
        if any(map(_counts, graph().find_modules_that_directly_import(module) - inside))
    }


def _counts(importer: str) -> bool:
    return importer.rpartition(".")[2] not in WIRING and ".migrations" not in importer


def parts_of(container: str) -> set[str]:
    """The packages and modules right below a room or a package."""
    return {child.rpartition(".")[2] for child in graph().find_children(container)} - DJANGOS_OWN


def imports_between(container: str) -> dict[str, set[str]]:
    """Which children of a package import which others, themselves or by what is inside them."""
    between: dict[str, set[str]] = defaultdict(set)
    for module in graph().find_descendants(container):
        importer = _child(container, module)
        for imported in graph().find_modules_directly_imported_by(module):
            other = _child(container, imported)
            if importer and other and importer != other:
                between[importer].add(other)
    return between


def _child(container: str, module: str) -> str | None:
    name = module.removeprefix(f"{container}.").split(".")[0]
    return name if module.startswith(f"{container}.") and name not in DJANGOS_OWN else None


def floors_of(container: str) -> list[set[str]]:
    """The parts on each floor, the lowest first. Raises ``ValueError`` for a circle."""
    between = imports_between(container)
    left, floors, placed = parts_of(container), [], set[str]()
    while left:
        floor = {part for part in left if between.get(part, set()) <= placed}
        if not floor:
            raise ValueError(f"There is a circle among {', '.join(sorted(left))}.")
        floors.append(floor)
        placed |= floor
        left -= floor
    return floors


def lines_of(folders: Iterable[str], *, but: tuple[str, ...] = ()) -> int:
    """Lines of Python, without migrations."""
    return sum(
        len(path.read_text().splitlines())
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "migrations" not in path.parts
        and not str(path.relative_to(ROOT)).startswith(but or ("\0",))
    )


def modules_per_folder() -> Mapping[str, int]:
    """Without ``__init__`` and Django's own folders."""
    counts: dict[str, int] = defaultdict(int)
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            if path.name != "__init__.py" and not DJANGOS_OWN & set(path.parts):
                counts[str(path.parent.relative_to(ROOT))] += 1
    return counts


def figures() -> Iterator[str]:
    yield f"lines of Python: {lines_of(ROOMS)}; without the optional apps {_core()}"
    for room in ROOMS:
        lines = f"{lines_of([room])} lines"
        try:
            floors = f"{len(floors_of(room))} floors"
        except ValueError as circle:
            floors = str(circle)
        yield f"{room}: {lines}, {len(parts_of(room))} packages and modules right below, {floors}"
    doors = {package: doors_of(package) for package in packages()}
    yield f"doors: {sum(map(len, doors.values()))} of {len(doors)} packages"
    folder, number = max(modules_per_folder().items(), key=lambda each: each[1])
    yield f"largest folder: {folder} with {number} modules"


def _core() -> int:
    return lines_of(ROOMS, but=OPTIONAL)


if __name__ == "__main__":
    for line in figures():
        print(line)  # noqa: T201
