"""The machine of all kinds: what a document says, compared with what is there, and made so.

A kind is a class: its members are what a document may say, ``rows`` what is there of it, and
``make``, ``change`` and ``remove`` call the services of the desk's pages and of the commands.
Plan, export and pruning follow from that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, cast, get_args

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import DataError, IntegrityError
from django.db.models import Model
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from ledger.errors import LedgerError
from ledger.events import edits_between
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.foundation.crypto.standard_webhooks import SecretRefused
from ledger.foundation.http_out import AddressRefused
from ledger.models import Tenant
from ledger.principals import Principal, Surface
from ledger.tools.credentials import CredentialRefused
from ledger.tools.manifests import ManifestRefused
from ledger.tools.mcp_upstreams import UpstreamRefused
from ledger.tools.registrations import Refused as ToolRefused

SECRET_MOST = 100_000  # characters
# Settings of ours, also as NAME_FILE: whoever writes a file of documents has them sent nowhere.
OWN = re.compile("(ASSENT|DATABASE|POSTGRES|REDIS)_")
NOT_SHOWN = ["not shown", "another, not shown"]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,63}$")]
# In one time zone, so that the same moment is written in one way.
Moment = Annotated[AwareDatetime, AfterValidator(lambda at: at.astimezone(UTC))]
# A kind, or several with | between, and the key of one of the same tenant.
Reference = tuple[str, ...]
Key = tuple[str, ...]
Place = tuple[str, str, Key]  # kind, tenant and key: nothing else has the same
Edits = dict[str, list[Any]]


class Refused(Exception):
    """A document cannot be carried out; the text says why. Nothing of it was changed."""


# The ways in which services and the database say no.
REFUSALS = (
    *(Refused, LedgerError, ManifestRefused, CredentialRefused, UpstreamRefused, ToolRefused),
    *(AddressRefused, SecretRefused, ValidationError),
    *(IntegrityError, DataError, ObjectDoesNotExist),
)


def words_of(refusal: Exception) -> str:
    match refusal:
        case LedgerError():
            return refusal.detail
        case ValidationError():
            return " ".join(refusal.messages)
        case IntegrityError():
            return "Something else has its name, or it names what is not there."
        case DataError():
            return "Something in it is longer or larger than what can be kept."
        case ObjectDoesNotExist():
            return "It names what is not there, as that was refused."
    return str(refusal)


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
        if not 0 < len(self._text) <= SECRET_MOST or "\0" in self._text:
            raise ValueError("the secret is empty, or too long, or no text")
        return self

    def _read(self, folder: Path) -> str:
        if self.file is None:
            if OWN.match(self.env or ""):
                raise ValueError(f"{self.env} is a setting of Assent, and goes to nobody")
            return os.environ.get(self.env or "", "")
        own = (value for name, value in os.environ.items() if OWN.match(name))
        if (folder / self.file).resolve() in (Path(value).resolve() for value in own):
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


@dataclass
class Run:
    """One carrying out: by whom, and the secrets that were made, which are shown once."""

    by: Principal
    via: Surface
    made: list[tuple[str, str]] = field(default_factory=list)

    @property
    def origin(self) -> dict[str, Any]:
        return {"by": self.by, "via": self.via}


class Spec(Strict):
    """One document. A member that is left out has its default; a secret stays as it is."""

    kind: ClassVar[str]
    # The members that tell it from the others of its tenant: they never change.
    identity: ClassVar[tuple[str, ...]] = ("slug",)
    # Where a member is in a row, if not in the column of its name.
    paths: ClassVar[Mapping[str, str]] = {}
    # Members that stay as they are where they are left out.
    stays: ClassVar[frozenset[str]] = frozenset()
    # Talks to another service, so it is carried out in no database transaction of ours.
    reaches_out: ClassVar[bool] = False
    # May be there once another document is carried out.
    comes_with_another: ClassVar[bool] = False
    # Completes “agent acme/helpdesk …”.
    removal: ClassVar[str] = "is removed"

    tenant: Slug

    # --- what differs from kind to kind ---

    @classmethod
    def rows(cls, tenant: str) -> Any:
        """The rows of the tenant, without their secrets, in the order of an export."""
        raise NotImplementedError

    @classmethod
    def present(cls, tenant: str) -> Iterable[Self]:
        """All that are there, as documents would say it."""
        return map(cls.of, cls.rows(tenant))

    def needs(self) -> Iterable[Reference]:
        """Others that have to be there, or in the files, before it, besides its tenant."""
        return ()

    def make(self, run: Run) -> None:
        raise NotImplementedError

    def change(self, before: Self, edits: Edits, run: Run) -> None:
        self.make(run)

    def remove(self, run: Run) -> None:
        off = self.model_copy(update={"is_active": False})
        off.change(self, {"is_active": [True, False]}, run)

    def is_removable(self) -> bool:
        """False for what is as good as gone already, and for what stays in any case."""
        return bool(getattr(self, "is_active", True))

    def rank(self) -> int:
        """Those of a lower rank are carried out first; else they are in the order of the files."""
        return 0

    def is_moot(self) -> bool:
        """True for what does not have to be made where it is not there."""
        return False

    # --- what all have ---

    @property
    def key(self) -> Key:
        return tuple(str(getattr(self, name)) for name in self.identity)

    @property
    def place(self) -> Place:
        return self.kind, self.tenant, self.key

    @property
    def tenant_row(self) -> Tenant:
        """Raises ``ObjectDoesNotExist``: its own document was refused."""
        return Tenant.objects.get(pk=self.tenant)

    @classmethod
    def of(cls, row: Any, **others: Any) -> Self:
        """The row as a document would say it; ``others`` are members that are no columns."""
        paths = {"tenant": "tenant_id", **cls.paths}
        names = cls.model_fields.keys() - {*cls.secret_members(), *others}
        columns = {name: _plain(attrgetter(paths.get(name, _column(name)))(row)) for name in names}
        return cast(Self, cls.model_construct(**columns, **others))

    def row(self) -> Any:
        """Its row. Raises ``ObjectDoesNotExist``."""
        names = {name: self.paths.get(name, name).replace(".", "__") for name in self.identity}
        which = {path: getattr(self, name) for name, path in names.items()}
        return self.rows(self.tenant).get(**which)

    def now(self) -> Self | None:
        """The one of its key that is there."""
        return next((each for each in self.present(self.tenant) if each.key == self.key), None)

    def bring_in_line(self, run: Run) -> None:
        """Change what is there by now where it differs."""
        before = self.now()
        if before is None:
            raise Refused("Something of another kind has its name.")
        if edits := self.edits(before):
            self.change(before, edits, run)

    def facts(self) -> dict[str, Any]:
        """The members that are compared, as JSON."""
        left_out = {"tenant", *self.secret_members()}
        return self.model_dump(mode="json", exclude=left_out, warnings=False)

    def columns(self, names: Iterable[str]) -> dict[str, Any]:
        """These members as columns of a row: ``lease_s`` is the length of time ``lease``."""
        facts = self.facts()
        return {
            _column(name): timedelta(seconds=facts[name])
            if name.endswith("_s") and facts[name] is not None
            else facts[name]
            for name in names
        }

    def edits(self, before: Self) -> Edits:
        facts = self.facts().items()
        named = {name: each for name, each in facts if each is not None or name not in self.stays}
        edits = edits_between(before.facts(), named)
        return edits | {
            name: NOT_SHOWN for name, each in self.secrets().items() if self.kept(name) != each.text
        }

    @classmethod
    def secret_members(cls) -> list[str]:
        fields = cls.model_fields.items()
        return [name for name, each in fields if Secret in get_args(each.annotation)]

    def secrets(self) -> dict[str, Secret]:
        """Those that are named."""
        named = {name: getattr(self, name) for name in self.secret_members()}
        return {name: secret for name, secret in named.items() if secret is not None}

    def kept(self, name: str) -> str | None:
        """The secret that is there; ``None`` where it can no longer be read."""
        try:
            return str(getattr(self.row(), name))
        except SecretUnreadable:
            return None


def _column(name: str) -> str:
    return name.removesuffix("_s")


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


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


def checked(check: Callable[[Any], Any]) -> AfterValidator:
    """A validator by what the services check: their refusal is a fault of this member."""

    def validate(value: Any) -> Any:
        try:
            check(value)
        except REFUSALS as refusal:
            raise ValueError(words_of(refusal)) from None
        return value

    return AfterValidator(validate)
