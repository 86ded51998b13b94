"""Contract that the owner of a tool publishes about it: ``GET {address}/contract``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ledger import seals
from ledger.contracts import ConsequenceLevel, json_schemas
from ledger.errors import InvalidRequest, SchemaUnusable
from ledger.tools.http import exchange
from ledger.tools.http.answers import NotProved, object_in
from ledger.tools.http.exchange import NOTHING_WAS_SENT, Service
from ledger.tools.manifests import HttpManifest

TIMEOUT_S = 10.0
# Keywords that say nothing about which arguments fit, and those whose members are names.
ANNOTATIONS = frozenset(
    ["$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "title"]
)
OF_NAMES = frozenset(["$defs", "dependentSchemas", "patternProperties", "properties"])


class Unreadable(Exception):
    """Nothing was read that could be compared; the text says why."""


class Unusable(Exception):
    """Raised if what is published is not a contract of the tool; the text says why."""


class Promises(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    reversible: bool
    idempotent: bool
    receipt_lookup: bool
    plan: bool
    replan: bool = False
    still_valid: bool = False


class PublishedContract(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    version: Annotated[str, Field(max_length=100)]
    json_schema: dict[str, Any]
    promises: Promises
    description: Annotated[str, Field(max_length=10_000)] = ""


def read(service: Service, *, tool: str, tenant: str) -> dict[str, Any]:
    """The JSON object that is published now, whatever it says. Raises ``Unreadable``."""
    named = {"tool": tool, "tenant": tenant}
    request = exchange.reading(service, "contract", "contract", named)
    try:
        response = exchange.response_to(request, service, timeout_s=TIMEOUT_S)
    except NOTHING_WAS_SENT as refusal:
        raise Unreadable(str(refusal)) from None
    except (httpx.HTTPError, TimeoutError) as failure:
        raise Unreadable(f"It did not answer: {type(failure).__name__}.") from None
    if response.status_code != 200:
        raise Unreadable(f"It answered {response.status_code}.")
    try:
        return dict(object_in(response.content))
    except NotProved as refusal:
        raise Unreadable(str(refusal)) from None


def digest_of(contract: dict[str, Any]) -> str:
    """SHA-256 of its canonical JSON (RFC 8785); empty if it has none, so that it equals nothing."""
    try:
        return seals.digest_of(contract)
    except InvalidRequest:
        return ""


def check(contract: dict[str, Any], name: str) -> None:
    """Raises ``Unusable`` if this is not what the owner of the tool would publish."""
    try:
        seals.refuse_unsafe_text(contract, "what it publishes")
        published = PublishedContract.model_validate(contract)
        json_schemas.check(published.json_schema)
    except ValidationError as refusal:
        places = (".".join(map(str, error["loc"])) for error in refusal.errors(include_input=False))
        raise Unusable(f"It publishes no contract: look at {', '.join([*places][:5])}.") from None
    except (InvalidRequest, SchemaUnusable) as refusal:
        raise Unusable(f"It publishes no contract: {refusal.detail}") from None
    if published.name != name:
        raise Unusable(f"It publishes the contract of {published.name!r:.80}.")


# --- compared with the manifest -----------------------------------------------------------------


def not_promised(manifest: HttpManifest, contract: Mapping[str, Any]) -> list[str]:
    """The promises that the manifest relies on and that a checked contract does not make."""
    terms = manifest.contract
    relied_on = {
        "idempotent": terms.retry_safe,
        "plan": "plan" in manifest.routes,
        "replan": "replan" in manifest.routes,
        "still_valid": "still_valid" in manifest.routes,
        "receipt_lookup": "find_receipt" in manifest.routes,
        "reversible": terms.consequence_level != ConsequenceLevel.IRREVERSIBLE,
    }
    promised = Promises.model_validate(contract["promises"]).model_dump()
    return [name for name, is_relied_on in relied_on.items() if is_relied_on and not promised[name]]


def other_arguments(manifest: HttpManifest, contract: Mapping[str, Any]) -> list[str]:
    """Places where the schema of a checked contract takes other arguments than the manifest's."""
    return list(schema_differences(manifest.arguments, contract["json_schema"]))


def schema_differences(
    ours: Any, theirs: Any, at: str = "", *, of_names: bool = False
) -> Iterator[str]:
    """Places where two schemas differ, but for what says nothing about which arguments fit."""
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        if _plain(ours) != _plain(theirs):
            yield at or "the schema itself"
        return
    for name in sorted({*ours, *theirs}):
        if of_names or name not in ANNOTATIONS:
            place = f"{at}.{name}" if at else name
            is_of_names = not of_names and name in OF_NAMES
            yield from schema_differences(
                ours.get(name), theirs.get(name), place, of_names=is_of_names
            )


def _plain(value: Any) -> str:
    """As JSON; lists of texts (``required``, ``enum``) in one order."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = sorted(value)
    return json.dumps(value, sort_keys=True)
