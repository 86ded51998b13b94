"""Facts every manifest states of a tool that is not Python: its arguments, and its promises."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ledger import seals
from ledger.contracts import (
    LONGEST_CALL,
    ConsequenceLevel,
    Contract,
    RequiredApprover,
    RiskLevel,
    json_schemas,
)
from ledger.errors import InvalidRequest, SchemaUnusable

RECEIPT = "id"  # the member of ``receipt`` that proves success
SCHEMA_MOST = 50_000  # characters as JSON
LONGEST_TIMEOUT_S = 86_400.0  # until what was accepted is done
Seconds = Annotated[float, Field(gt=0, le=100 * 365 * 86_400)]


# As the people who sign off read it: letters of other scripts could imitate it.
HOST = re.compile(
    r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)(:[1-9][0-9]{0,4})?"
)


class ManifestRefused(Exception):
    """The manifest is not one; the text says where and why."""


class Strict(BaseModel):
    """No member that is not declared, no text without a limit."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=10_000)


class ContractTerms(Strict):
    """The fields of ``Contract`` that a manifest may set, durations in seconds."""

    # As ``Manifest.added_later``.
    added_later: ClassVar[frozenset[str]] = frozenset(
        {
            *("keeper_may_sign", "required_policy", "floor"),
            *("editable", "plan_max_age_s", "touches", "strength"),
        }
    )

    owner_service: Annotated[str, Field(min_length=1, max_length=100)]
    operation_key: Annotated[str, Field(min_length=1, max_length=300)]
    operation_key_aliases: dict[str, date] = {}
    timeout_s: Annotated[float, Field(gt=0, le=LONGEST_TIMEOUT_S)] = 30
    risk_level: RiskLevel = RiskLevel.HIGH
    required_approver: RequiredApprover = RequiredApprover.HUMAN
    consequence_level: ConsequenceLevel = ConsequenceLevel.IRREVERSIBLE
    retry_safe: bool = False
    quorum: Annotated[int, Field(ge=1, le=20)] = 1
    floor: RequiredApprover | Literal[""] = ""
    keeper_may_sign: bool = False
    required_policy: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    ttl_s: Seconds = 900
    min_ttl_s: Seconds = 5
    max_ttl_s: Seconds = 86_400
    retention_s: Seconds = 7 * 365 * 86_400
    undo: Annotated[str, Field(max_length=300)] = ""
    web_only: bool = False
    strength: Literal["click", "typed", "passkey"] = "click"
    remind_s: Seconds | None = None
    subject: str = ""
    compensation: Annotated[str, Field(max_length=300)] = ""
    editable: Annotated[list[str], Field(max_length=200)] | None = None
    plan_max_age_s: Seconds | None = None
    touches: Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=20)] = []

    @field_validator("operation_key", "compensation")
    @classmethod
    def _names_only(cls, template: str) -> str:
        return _checked_template(template)

    @field_validator("touches")
    @classmethod
    def _names_only_in_touches(cls, templates: list[str]) -> list[str]:
        return [_checked_template(template) for template in templates]

    @field_validator("operation_key_aliases")
    @classmethod
    def _names_only_in_aliases(cls, aliases: dict[str, date]) -> dict[str, date]:
        return {_checked_template(template): last_day for template, last_day in aliases.items()}

    def contract(self) -> Contract:
        terms = self.model_dump()
        durations: dict[str, Any] = {
            name.removesuffix("_s"): value if value is None else timedelta(seconds=value)
            for name, value in terms.items()
            if name.endswith("_s")
        }
        others = {name: value for name, value in terms.items() if not name.endswith("_s")}
        return Contract(receipt=RECEIPT, **others, **durations)


class Manifest(Strict):
    """One version of a tool. Its canonical JSON is hashed, and the hash is part of each intent.

    Each kind of tool has a subclass, with a member ``kind``.
    """

    # Optional members that came later. At their defaults they are left out of the JSON, so that
    # manifests from before keep their hash.
    added_later: ClassVar[frozenset[str]] = frozenset()

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,99}$")]
    kind: str
    description: Annotated[str, Field(max_length=3000)] = ""
    arguments: dict[str, Any]
    contract: ContractTerms

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        seals.refuse_unsafe_text(self.model_dump(mode="json"), "the manifest")
        _check_arguments(self.arguments)
        if self.contract.timeout_s > LONGEST_CALL.total_seconds() and not self.is_asked_again:
            raise ValueError(
                f"contract.timeout_s: one call takes {LONGEST_CALL.total_seconds():g} s at most; "
                "longer takes a service that answers 202, with the route find_receipt"
            )
        return self

    @property
    def is_asked_again(self) -> bool:
        """True if what it has accepted can be asked for."""
        return False

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """Raises ``ManifestRefused``, which names every member that is wrong."""
        try:
            return cls.model_validate(value)
        except (ValidationError, InvalidRequest) as refusal:
            raise ManifestRefused(_explained(refusal)) from refusal

    def as_json(self) -> dict[str, Any]:
        """Members that are stored and hashed: all of them, also those at their defaults."""
        members = _without_defaults(self, self.model_dump(mode="json"))
        return members | {"contract": _without_defaults(self.contract, members["contract"])}

    @property
    def sha256(self) -> str:
        return seals.digest_of(self.as_json())


def _without_defaults(model: Manifest | ContractTerms, members: dict[str, Any]) -> dict[str, Any]:
    """The members, without those that came later and are at their defaults."""
    fields = type(model).model_fields
    return {
        name: value
        for name, value in members.items()
        if name not in model.added_later or value != fields[name].default
    }


def check_host(address: str) -> None:
    """Raises ``ValueError`` for a host that reads like another one."""
    if not HOST.fullmatch(urlsplit(address).netloc):
        raise ValueError("the host is written in ASCII (xn--…), with a port if it needs one")


def _checked_template(template: str) -> str:
    """Nothing but text and ``{names}``: Python's formats would read attributes, and fill memory."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as failure:
        raise ValueError(f"the template is broken: {failure}") from None
    for _, name, spec, conversion in parts:
        if spec or conversion or (name is not None and not name.isidentifier()):
            raise ValueError(f"{{{name}}} must be the plain name of an argument")
    return template


def _check_arguments(schema: dict[str, Any]) -> None:
    if len(seals.canonical(schema)) > SCHEMA_MOST:
        raise ValueError(f"the schema of the arguments has more than {SCHEMA_MOST} characters")
    try:
        json_schemas.check(schema)
    except SchemaUnusable as refusal:
        raise ValueError(f"the schema of the arguments: {refusal.detail}") from refusal
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        raise ValueError("the arguments are an object: set type and properties")
    if schema.get("additionalProperties") is not False:
        raise ValueError("set additionalProperties to false: what nobody declared nobody reads")
    if wrong := [name for name in schema["properties"] if not _is_name_of_argument(name)]:
        raise ValueError(f"{wrong[0]!r:.80} cannot be the name of an argument")


def _is_name_of_argument(name: str) -> bool:
    """True if a model can have such a field: none hides what the model itself is made of."""
    is_ours = name.startswith("model_") and hasattr(BaseModel, name)
    return name.isidentifier() and not name.startswith("_") and not is_ours


PLAIN = {"missing": "is missing", "extra_forbidden": "there is no such member"}


def _explained(refusal: ValidationError | InvalidRequest) -> str:
    if not isinstance(refusal, ValidationError):
        return refusal.detail
    texts = [
        f"{'.'.join(map(str, error['loc'])) or 'the manifest'}: "
        f"{PLAIN.get(error['type'], error['msg'])}"
        for error in refusal.errors(include_url=False, include_context=False)
    ]
    return "; ".join(texts[:20])
