"""An import-linter contract: a package is entered through its doors only.

    [[tool.importlinter.contracts]]
    name = "packages are entered through their doors"
    type = "doors"
    doors = ["ledger.log: checkpoints, keeper", "ledger.models: ."]
    wiring = ["ledger.apps"]

A door is a module that other packages may import; ``.`` is the package itself, that is, what its
``__init__`` exports; ``none`` is a package that only wiring enters. Every package must be listed;
``wiring`` may enter anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

UNLISTED = ("management", "migrations", "templatetags")


class DoorsContract(Contract):
    doors = fields.SetField(subfield=fields.StringField())
    wiring = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        doors = dict(self._parsed())
        wiring = {str(module) for module in self.wiring or ()}
        problems = [
            f"{package} has no doors in pyproject.toml"
            for package in sorted(_packages(graph) - set(doors))
        ]
        for package, open_modules in sorted(doors.items()):
            inside = graph.find_descendants(package) | {package}
            for module in sorted(inside - open_modules):
                importers = graph.find_modules_that_directly_import(module) - inside - wiring
                problems += [
                    f"{importer} imports {module}, which is no door of {package}"
                    for importer in sorted(importers)
                    if not _is_migration(importer)
                ]
            unused = [
                door
                for door in sorted(open_modules)
                if not graph.find_modules_that_directly_import(door) - inside
            ]
            problems += [f"{door} is a door that nobody uses" for door in unused]
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for problem in check.metadata["problems"]:
            output.print_error(problem, bold=False)

    def _parsed(self) -> Iterator[tuple[str, set[str]]]:
        for line in self.doors:
            package, _, names = str(line).partition(":")
            modules = {name.strip() for name in names.split(",")} - {"none"}
            yield package, {package if name == "." else f"{package}.{name}" for name in modules}


def _packages(graph: ImportGraph) -> set[str]:
    return {
        module
        for module in graph.modules
        if "." in module and graph.find_children(module) and module.split(".")[1] not in UNLISTED
    }


def _is_migration(module: str) -> bool:
    return ".migrations" in module
