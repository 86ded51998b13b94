"""The checks of what only some services have: ``compensate``, a credential, a contract."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ledger.http_tools import published
from ledger.http_tools.conformance_probe import Heard, Probe, Skipped, Unexpected
from ledger.http_tools.published import Unusable
from ledger.manifests import HttpManifest

KEPT_OUT = frozenset({401, 403})
PUBLISHES_NONE = frozenset({400, 404, 405, 501})
MOST_SHOWN = 5
# Keywords that say nothing about which arguments fit, and those whose members are names.
ANNOTATIONS = frozenset(
    ["$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "title"]
)
OF_NAMES = frozenset(["$defs", "dependentSchemas", "patternProperties", "properties"])
RELIED_ON = {
    "plan": "the manifest has the route plan, and people may never read what would happen",
    "receipt_lookup": "the manifest has the route find_receipt, and what is in doubt stays so",
    "idempotent": "the manifest says retry_safe, and what is asked again may be done twice",
    "reversible": "the manifest is not IRREVERSIBLE, and what people sign may never be undone",
}


# --- compensate ---------------------------------------------------------------------------------


def compensate(probe: Probe) -> None:
    _compensated(probe)


def double_compensate(probe: Probe) -> None:
    key, receipt, undone = _compensated(probe)
    again = probe.receipt_of(probe.ask("compensate", key, receipt=receipt), key)
    if again != undone:
        raise Unexpected(f"receipt {again} after receipt {undone}")


def empty_compensate(probe: Probe) -> None:
    probe.needs("compensate")
    heard = probe.ask("compensate", probe.new_key(), receipt={"id": "none"})
    if heard.answer.status < 400:
        raise Unexpected(str(heard))


def _compensated(probe: Probe) -> tuple[str, dict[str, str], str]:
    """A key that was carried out and made good, with the receipts of both."""
    probe.needs("compensate")
    key, receipt = probe.committed()
    heard = probe.ask("compensate", key, receipt={"id": receipt})
    return key, {"id": receipt}, probe.receipt_of(heard, key)


# --- a credential -------------------------------------------------------------------------------


def credential(probe: Probe) -> None:
    """Without it, and with another value. Both are signed as they have to be."""
    if not probe.shown:
        raise Skipped("if the service asks for a header, name it: --header NAME")
    for value in (None, "another value"):
        request = probe.request("commit", probe.body(probe.new_key()))
        for name in probe.shown:
            del request.headers[name]
            request.headers.update({name: value} if value else {})
        heard = probe.send(probe.signed(request))
        if heard.response is None or heard.response.status_code not in KEPT_OUT:
            raise Unexpected(f"{heard}, {'with another value' if value else 'without it'}")


# --- what the owner publishes -------------------------------------------------------------------


def contract(probe: Probe) -> None:
    _published(probe)


def promises(probe: Probe) -> None:
    manifest, found = _manifest_of(probe), _published(probe)["promises"]
    relied_on = _relied_on(manifest)
    if broken := [RELIED_ON[name] for name in sorted(relied_on) if not found[name]]:
        raise Unexpected("; ".join(broken))


def schema(probe: Probe) -> None:
    manifest, found = _manifest_of(probe), _published(probe)["json_schema"]
    if places := [*differences(manifest.arguments, found)]:
        more = f" and {len(places) - MOST_SHOWN} more" if len(places) > MOST_SHOWN else ""
        raise Unexpected(f"they differ at {', '.join(places[:MOST_SHOWN])}{more}")


def _relied_on(manifest: HttpManifest) -> set[str]:
    terms = manifest.contract
    relied_on = {
        "plan": "plan" in manifest.routes,
        "receipt_lookup": "find_receipt" in manifest.routes,
        "idempotent": terms.retry_safe,
        "reversible": terms.consequence_level != "IRREVERSIBLE",
    }
    return {name for name, is_relied_on in relied_on.items() if is_relied_on}


def _manifest_of(probe: Probe) -> HttpManifest:
    if probe.manifest is None:
        raise Skipped("say what it is compared with: --manifest FILE")
    return probe.manifest


def _published(probe: Probe) -> Mapping[str, Any]:
    """Raises ``Skipped`` where there is none, ``Unexpected`` where it is no contract."""
    heard: Heard = probe.contract()
    if heard.response is not None and heard.response.status_code in PUBLISHES_NONE:
        raise Skipped("the service publishes no contract")
    found = heard.answer.body
    if heard.answer.status != 200:
        raise Unexpected(str(heard))
    name = probe.manifest.name if probe.manifest is not None else str(found.get("name"))
    try:
        published.check(dict(found), name)
    except Unusable as refusal:
        raise Unexpected(str(refusal)) from None
    return found


def differences(ours: Any, theirs: Any, at: str = "", *, of_names: bool = False) -> Iterator[str]:
    """Where two schemas differ, but for what says nothing about which arguments fit."""
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        if _plain(ours) != _plain(theirs):
            yield at or "the schema itself"
        return
    for name in sorted({*ours, *theirs}):
        if of_names or name not in ANNOTATIONS:
            place = f"{at}.{name}" if at else name
            is_of_names = not of_names and name in OF_NAMES
            yield from differences(ours.get(name), theirs.get(name), place, of_names=is_of_names)


def _plain(value: Any) -> str:
    """As JSON; lists of texts (``required``, ``enum``) in one order."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = sorted(value)
    return json.dumps(value, sort_keys=True)
