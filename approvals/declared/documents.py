"""Files of documents: read and refused as a whole, with every mistake named; and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from django.apps import apps
from pydantic import ValidationError

from approvals.declared.kinds import Kind, Spec
from approvals.declared.registry import OPTIONAL, kinds
from ledger.errors import LedgerError
from ledger.tools.manifests import ManifestRefused, texts

SUFFIXES = {".yaml", ".yml", ".json"}
FILE_MOST = 1_000_000  # bytes
PLAIN = {"missing": "is missing", "extra_forbidden": "there is no such member"}


class FilesRefused(Exception):
    """The files are not what could be applied; ``faults`` name file, document and member."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True)
class Document:
    """One document, and its place in a file."""

    place: str
    kind: Kind[Any]
    spec: Spec

    @property
    def name(self) -> tuple[str, str, str]:
        return self.kind.name, self.spec.tenant, self.spec.key


def read(path: Path) -> list[Document]:
    """The documents of a file, or of all files in a folder. Raises ``FilesRefused``."""
    faults: list[str] = []
    documents = [each for file in _files(path) for each in _documents(file, faults)]
    places: dict[tuple[str, str, str], str] = {}
    for each in documents:
        if each.name in places:
            faults.append(f"{each.place}: the same as {places[each.name]}")
        places[each.name] = each.place
    if faults:
        raise FilesRefused(faults)
    return documents


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise FilesRefused([f"{path}: no file there ends in {', '.join(sorted(SUFFIXES))}"])
    return files


def _documents(file: Path, faults: list[str]) -> Iterator[Document]:
    try:
        if file.stat().st_size > FILE_MOST:
            raise ManifestRefused(f"it has more than {FILE_MOST} bytes")
        values = texts.parse_all(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ManifestRefused) as failure:
        faults.append(f"{file}: {failure}")
        return
    for number, value in enumerate(values, 1):
        if value is not None:  # as between two lines of ---
            yield from _document(f"{file}, document {number}", value, file.parent, faults)


def _document(place: str, value: Any, folder: Path, faults: list[str]) -> Iterator[Document]:
    if not isinstance(value, Mapping):
        faults.append(f"{place}: a document has the members kind and tenant, and those of its kind")
        return
    members = dict(value)
    name = members.pop("kind", None)
    kind = kinds().get(name) if isinstance(name, str) else None
    if kind is None:
        faults.append(f"{place}: kind: {_unknown(name)}")
        return
    try:
        yield Document(place, kind, kind.spec.model_validate(members, context={"folder": folder}))
    except ValidationError as refusal:
        for error in refusal.errors(include_url=False, include_context=False, include_input=False):
            where = ".".join(map(str, error["loc"]))
            text = PLAIN.get(error["type"], error["msg"].removeprefix("Value error, "))
            faults.append(f"{place} ({name}): {where + ': ' if where else ''}{text}")
    except LedgerError as refusal:
        faults.append(f"{place} ({name}): {refusal.detail}")


def _unknown(name: Any) -> str:
    if isinstance(name, str) and (app := OPTIONAL.get(name)) and not apps.is_installed(app):
        return f"{name} needs the app {app}, which ASSENT_OPTIONAL_APPS leaves out here"
    return f"{str(name)[:80]!r} is none of {', '.join(kinds())}"


# --- writing them ---------------------------------------------------------------------------------


def text_of(tenant: str) -> str:
    """A tenant as documents, in the order in which they are applied; nothing secret."""
    return "---\n".join(
        _text_of(kind, spec) for kind in kinds().values() for spec in kind.present(tenant)
    )


def _text_of(kind: Kind[Any], spec: Spec) -> str:
    members = {"kind": kind.name, "tenant": spec.tenant, **dict(_members(spec))}
    return yaml.safe_dump(members, sort_keys=False, allow_unicode=True, width=88)


def _members(spec: Spec) -> Iterator[tuple[str, Any]]:
    """Without what is at its default, in the order in which the kind has them."""
    facts = spec.facts()
    for name, field in type(spec).model_fields.items():
        if name in facts and (field.is_required() or facts[name] != field.default):
            yield name, facts[name]
