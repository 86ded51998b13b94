"""A manifest from what a service publishes about its tool, for an operator to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledger.models import Tenant
from ledger.tools import manifests, tool_from
from ledger.tools.http import HttpTool, published
from ledger.tools.manifests import Manifest

# Arguments that say how much, not of what: the same operation may not be asked for twice with
# another amount.
AMOUNTS = frozenset({"amount", "price", "max_price", "quantity", "reason", "note", "comment"})


@dataclass(frozen=True, slots=True)
class Published:
    """The contract that was read, and the manifest that relies on no more than it promises."""

    contract: dict[str, Any]
    manifest: Manifest


def read(tenant: Tenant, wanted: dict[str, str]) -> Published:
    """Ask the address for the contract of the tool.

    ``wanted`` has ``address``, ``name``, ``owner_service`` and ``credential``. Raises
    ``Unreadable, Unusable, ManifestRefused``.
    """
    bare = manifests.read(_manifest(wanted, {"type": "object", "properties": {}}, {}))
    tool = tool_from(bare, tenant.slug)
    assert isinstance(tool, HttpTool)
    contract = published.read(tool.service, tool=wanted["name"], tenant=tenant.slug)
    published.check(contract, wanted["name"])
    schema, promises = contract["json_schema"], contract["promises"]
    value = _manifest(wanted, schema, promises)
    return Published(
        contract, manifests.read({**value, "description": contract.get("description", "")})
    )


def _manifest(
    wanted: dict[str, str], schema: dict[str, Any], promises: dict[str, bool]
) -> dict[str, Any]:
    """The strictest terms: what loosens them takes two operators. The routes are as it promises."""
    routes = [
        route
        for route, is_there in {
            "plan": promises.get("plan"),
            "rollback": promises.get("plan"),
            "find_receipt": promises.get("receipt_lookup"),
            "replan": promises.get("replan"),
            "still_valid": promises.get("still_valid"),
        }.items()
        if is_there
    ]
    return {
        "name": wanted["name"],
        "kind": "http",
        "address": wanted["address"],
        "credential": wanted.get("credential", ""),
        "arguments": {"additionalProperties": False, **schema},
        "routes": routes,
        "contract": {
            "owner_service": wanted["owner_service"],
            "operation_key": _operation_key(wanted["name"], schema),
        },
    }


def _operation_key(name: str, schema: dict[str, Any]) -> str:
    """Made of the required arguments that say what it concerns."""
    required = schema.get("required") or list(schema.get("properties", {}))
    subjects = [each for each in required if each not in AMOUNTS] or required
    return ":".join([name, "{tenant}", *(f"{{{each}}}" for each in subjects)])
