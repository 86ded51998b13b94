"""Files of documents: read and refused as a whole, with every mistake named; and written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from django.apps import apps
from pydantic import ValidationError

from approvals.declared.kinds import REFUSALS, Place, Spec, words_of
from approvals.declared.registry import OPTIONAL, kinds
from ledger import seals
from ledger.foundation.characters import UNSTORABLE, cleaned, one_line
from ledger.tools.manifests import ManifestRefused, texts

SUFFIXES = {".yaml", ".yml", ".json"}
PLAIN = {"missing": "is missing", "extra_forbidden": "there is no such member"}


class FilesRefused(Exception):
    """The files are not what could be applied; each fault names file, document and member."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(cleaned(one_line(each)) for each in faults))


@dataclass(frozen=True)
class Document:
    """One document, and where in a file it stands."""

    where: str
    spec: Spec


def read(path: Path) -> list[Document]:
    """The documents of a file, or of all files in a folder. Raises ``FilesRefused``."""
    faults: list[str] = []
    documents = [each for file in _files(path, faults) for each in _documents(file, faults)]
    places: dict[Place, str] = {}
    for each in documents:
        if each.spec.place in places:
            faults.append(f"{each.where}: the same as {places[each.spec.place]}")
        places[each.spec.place] = each.where
    if faults:
        raise FilesRefused(faults)
    return documents


def _files(path: Path, faults: list[str]) -> Iterator[Path]:
    """Without hidden ones: editors, git, and folders that are mounted, keep copies in those.

    What cannot be read is a fault, as ``--prune`` takes what it says for not declared.
    """
    if not path.is_dir():
        yield path
        return
    files: list[Path] = []
    for folder, folders, names in os.walk(path, onerror=lambda each: faults.append(str(each))):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [each for each in (Path(folder, name) for name in folders) if each.is_symlink()]
        faults.extend(f"{each}: it is a link to a folder, which is not followed" for each in links)
        files += [Path(folder, name) for name in names if not name.startswith(".")]
    files = sorted(file for file in files if file.suffix in SUFFIXES and file.is_file())
    for file in files:
        if not file.resolve().is_relative_to(path.resolve()):
            faults.append(f"{file}: it is a link out of the folder, where nobody reviews it")
        yield file
    if not files:
        faults.append(f"{path}: no file there ends in {', '.join(sorted(SUFFIXES))}")


def _documents(file: Path, faults: list[str]) -> Iterator[Document]:
    try:
        with file.open(encoding="utf-8") as lines:
            values = texts.parse_all(lines.read(texts.MOST + 1))
    except (OSError, UnicodeDecodeError, ManifestRefused) as failure:
        faults.append(f"{file}: {failure}")
        return
    for number, value in enumerate(values, 1):
        if value is not None:  # as between two lines of ---
            yield from _document(f"{file}, document {number}", value, file.parent, faults)


def _document(where: str, value: Any, folder: Path, faults: list[str]) -> Iterator[Document]:
    if not isinstance(value, Mapping):
        faults.append(f"{where}: a document has the members kind and tenant, and those of its kind")
        return
    members = dict(value)
    name = members.pop("kind", None)
    kind = kinds().get(name) if isinstance(name, str) else None
    if kind is None:
        faults.append(f"{where}: kind: {_unknown(name)}")
        return
    if any(UNSTORABLE.search(str(text)) for text in seals.texts_in(value)):
        faults.append(f"{where} ({name}): it has a character in it that cannot be kept, as \\0")
        return
    try:
        yield Document(where, kind.model_validate(members, context={"folder": folder}))
    except ValidationError as refusal:
        for error in refusal.errors(include_url=False, include_context=False, include_input=False):
            member = ".".join(map(str, error["loc"]))
            text = PLAIN.get(error["type"], error["msg"].removeprefix("Value error, "))
            faults.append(f"{where} ({name}): {member + ': ' if member else ''}{text}")
    except REFUSALS as refusal:
        faults.append(f"{where} ({name}): {words_of(refusal)}")


def _unknown(name: Any) -> str:
    if isinstance(name, str) and (app := OPTIONAL.get(name)) and not apps.is_installed(app):
        return f"{name} needs the app {app}, which ASSENT_OPTIONAL_APPS leaves out here"
    return f"{str(name)[:80]!r} is none of {', '.join(kinds())}"


# --- writing them ---------------------------------------------------------------------------------


def text_of(tenant: str) -> str:
    """A tenant as documents, in the order in which they are applied; nothing secret."""
    specs = (spec for kind in kinds().values() for spec in kind.present(tenant))
    return "---\n".join(
        yaml.safe_dump(_members(spec), sort_keys=False, allow_unicode=True, width=88)
        for spec in specs
    )


def _members(spec: Spec) -> dict[str, Any]:
    """Without what is at its default, in the order in which the kind has them."""
    facts = spec.facts()
    named = {"kind": spec.kind, "tenant": spec.tenant}
    for name, field in type(spec).model_fields.items():
        if name in facts and (field.is_required() or facts[name] != field.default):
            named[name] = facts[name]
    return named
