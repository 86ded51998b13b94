"""Kinds of documents: what one may say, what is there of it, and how it is made so.

A kind compares what a document wants with what ``present`` finds; plan, export and pruning follow
from that. What it changes, it changes by the services of the desk's pages and of the commands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from django.db.models import Model
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from ledger.events import edits_between
from ledger.models import Tenant
from ledger.principals import Principal, Surface

SECRET_MOST = 100_000  # characters
# Settings of ours, also as NAME_FILE: whoever writes a file of documents has them sent nowhere.
OWN = re.compile("(ASSENT|DATABASE|POSTGRES|REDIS)_")
NOT_SHOWN = ["not shown", "another, not shown"]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,63}$")]
Reference = tuple[str, str]  # a kind, or one of two, and the key of one of the same tenant
Edits = dict[str, list[Any]]


class Refused(Exception):
    """A document cannot be carried out; the text says why. Nothing of it was changed."""


class Strict(BaseModel):
    """No member that is not declared, no text without a limit."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=SECRET_MOST)


class Secret(Strict):
    """Names where a secret is: in a variable of the environment, or in a file."""

    env: Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    file: Path | None = None
    _text: str = PrivateAttr("")

    @model_validator(mode="before")
    @classmethod
    def _is_named(cls, value: Any) -> Any:
        """A message of its own, without the value: it may be the secret itself."""
        if not isinstance(value, dict) or len(value) != 1 or not set(value) <= {"env", "file"}:
            raise ValueError("name the secret as {env: VARIABLE} or {file: PATH}; it stays there")
        return value

    @model_validator(mode="after")
    def _is_there(self, info: ValidationInfo) -> Self:
        self._text = self._read(Path((info.context or {}).get("folder", "."))).rstrip("\r\n")
        if not 0 < len(self._text) <= SECRET_MOST:
            raise ValueError("the secret is empty, or too long")
        return self

    def _read(self, folder: Path) -> str:
        if self.file is None:
            if OWN.match(self.env or ""):
                raise ValueError(f"{self.env} is a setting of Assent, and goes to nobody")
            return os.environ.get(self.env or "", "")
        own = {file for name, file in os.environ.items() if OWN.match(name)}
        if str((folder / self.file).resolve()) in own:
            raise ValueError("the file is one of the settings of Assent, and goes to nobody")
        try:
            with (folder / self.file).open(encoding="utf-8") as lines:
                return lines.read(SECRET_MOST + 1)
        except (OSError, UnicodeDecodeError) as failure:
            kind = type(failure).__name__
            raise ValueError(f"the file of the secret cannot be read: {kind}") from None

    @property
    def text(self) -> str:
        return self._text


class Spec(Strict):
    """One document. A member that is left out has its default; a secret stays as it is."""

    # The members that tell it from the others of its tenant: they never change.
    identity: ClassVar[tuple[str, ...]] = ("slug",)
    # In the file alone: neither compared nor exported.
    only_in_file: ClassVar[frozenset[str]] = frozenset()

    tenant: Slug

    @property
    def key(self) -> str:
        return " ".join(filter(None, (str(getattr(self, name)) for name in self.identity)))

    def needs(self) -> Iterable[Reference]:
        """Others that have to be there, or in the files, before it, besides its tenant."""
        return ()

    def facts(self) -> dict[str, Any]:
        """The members that are compared, as JSON."""
        left_out = {"tenant", *self.secrets(), *self.only_in_file}
        return self.model_dump(mode="json", exclude=left_out, warnings=False)

    def columns(self, names: Iterable[str]) -> dict[str, Any]:
        """These members as columns of a row: ``lease_s`` is the length of time ``lease``."""
        return dict(_column(name, getattr(self, name)) for name in names)

    def secrets(self) -> dict[str, Secret]:
        named = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in named.items() if isinstance(value, Secret)}


@dataclass
class Run:
    """One carrying out: by whom, and the secrets that were made, which are shown once."""

    by: Principal
    via: Surface
    made: list[tuple[str, str]] = field(default_factory=list)

    @property
    def origin(self) -> dict[str, Any]:
        return {"by": self.by, "via": self.via}


S = TypeVar("S", bound=Spec)


class Kind(Generic[S]):
    """One kind of document, without state of its own."""

    name: ClassVar[str]
    spec: ClassVar[type[Spec]]
    # Talks to another service, so it is carried out in no database transaction of ours.
    reaches_out: ClassVar[bool] = False
    # May be there once another document is carried out.
    comes_with_another: ClassVar[bool] = False
    # Completes “agent acme/helpdesk …”.
    removal: ClassVar[str] = "is removed"

    def present(self, tenant: str) -> Iterator[S]:
        """All that are there, as documents would say it, in the order of the keys."""
        raise NotImplementedError

    def make(self, wanted: S, run: Run) -> None:
        raise NotImplementedError

    def change(self, before: S, wanted: S, edits: Edits, run: Run) -> None:
        raise NotImplementedError

    def remove(self, before: S, run: Run) -> None:
        raise NotImplementedError

    def is_removable(self, before: S) -> bool:
        """False for what is as good as gone already, and for what stays in any case."""
        return True

    def rank(self, wanted: S) -> int:
        """Those of a lower rank are carried out first; else they are in the order of the files."""
        return 0

    def is_moot(self, wanted: S) -> bool:
        """True for what is not there, and does not have to be made."""
        return False

    def is_kept(self, wanted: S, name: str, secret: str) -> bool:
        """True if this secret of it is the one that is there."""
        return False

    def edits(self, before: S, wanted: S) -> Edits:
        edits = edits_between(before.facts(), wanted.facts())
        for name, secret in wanted.secrets().items():
            if not self.is_kept(wanted, name, secret.text):
                edits[name] = NOT_SHOWN
        return edits

    def find(self, tenant: str, key: str) -> S | None:
        return next((each for each in self.present(tenant) if each.key == key), None)


def _column(name: str, value: Any) -> tuple[str, Any]:
    if not name.endswith("_s"):
        return name, value
    return name.removesuffix("_s"), None if value is None else timedelta(seconds=value)


def spans(row: Model, names: Iterable[str]) -> dict[str, Any]:
    """The columns of a row as members: the length of time ``lease`` is ``lease_s``."""
    values = {name: getattr(row, name.removesuffix("_s")) for name in names}
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in values.items()
    }


def set_columns(row: Model, columns: Mapping[str, Any]) -> Edits:
    """Save these columns, and no others of a row that is there. Returns the edits to seal.

    Raises ``ValidationError``.
    """
    is_new = row.pk is None
    before = {name: getattr(row, name) for name in columns}
    for name, value in columns.items():
        setattr(row, name, value)
    others = {each.name for each in row._meta.fields} - columns.keys()
    row.full_clean(exclude=others, validate_constraints=False)
    row.save() if is_new else row.save(update_fields=list(columns))
    return edits_between(before, columns)


def tenant_of(spec: Spec) -> Tenant:
    """Raises ``Refused``: its own document was refused."""
    row = Tenant.objects.filter(pk=spec.tenant).first()
    if row is None:
        raise Refused(f"There is no tenant {spec.tenant}.")
    return row
