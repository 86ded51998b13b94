"""The checks of what only some services have: second plans, ``compensate``, a credential, a
contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from approvals.conformance.probe import Heard, Probe, Skipped, Unexpected
from ledger.tools.http import published
from ledger.tools.http.published import Unusable
from ledger.tools.manifests import HttpManifest

KEPT_OUT = frozenset({401, 403})
PUBLISHES_NONE = frozenset({400, 404, 405, 501})
MOST_SHOWN = 5
RELIED_ON = {
    "plan": "the manifest has the route plan, and people may never read what would happen",
    "replan": "the manifest has the route replan, and nobody could correct what waits",
    "still_valid": "the manifest has the route still_valid, and nothing would be carried out",
    "receipt_lookup": "the manifest has the route find_receipt, and what is in doubt stays so",
    "idempotent": "the manifest says retry_safe, and what is asked again may be done twice",
    "reversible": "the manifest is not IRREVERSIBLE, and what people sign may never be undone",
}


# --- second plans -------------------------------------------------------------------------------


def replan(probe: Probe) -> None:
    """The second plan comes too late: what it holds is released, and the first carried out."""
    key, first, second = _planned_twice(probe)
    _release(probe, key, second)
    probe.receipt_of(probe.ask("commit", key, held=first), key)


def release_of_one(probe: Probe) -> None:
    """The second plan takes the place of the first, whose hold is released."""
    key, first, second = _planned_twice(probe)
    _release(probe, key, first)
    probe.receipt_of(probe.ask("commit", key, held=second), key)


def still_valid(probe: Probe) -> None:
    probe.needs("still_valid")
    heard = probe.ask("still_valid", probe.new_key())
    if heard.answer.status != 200 or not isinstance(heard.answer.body.get("still_valid"), bool):
        raise Unexpected(str(heard))


def effect_of_still_valid(probe: Probe) -> None:
    probe.needs("still_valid")
    probe.needs("find_receipt")
    key = probe.new_key()
    probe.ask("still_valid", key)
    heard = probe.look_up(key)
    if heard.response is not None and '"receipt"' in heard.response.text:
        raise Unexpected(f"{heard}, to the look-up that follows")


def _planned_twice(probe: Probe) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A key that was planned and planned again, and what the two plans hold."""
    for route in ("plan", "replan", "rollback"):
        probe.needs(route)
    key = probe.new_key()
    first = _held(probe.ask("plan", key))
    return key, first, _held(probe.ask("replan", key, held=first))


def _held(heard: Heard) -> dict[str, Any]:
    planned = heard.answer.body.get("plan")
    if heard.answer.status != 200 or not isinstance(planned, dict) or not planned.get("summary"):
        raise Unexpected(str(heard))
    return dict(planned.get("held") or {})


def _release(probe: Probe, key: str, held: Mapping[str, Any]) -> None:
    """As Assent asks for it: under a key that no operation has."""
    heard = probe.ask("rollback", f"{key}#{uuid4()}", held=dict(held))
    if heard.answer.status != 200:
        raise Unexpected(f"{heard}, to the rollback of one of two plans")


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
    """A key that was carried out and compensated, with the receipts of both."""
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
    manifest, published_contract = _manifest_of(probe), _published(probe)
    if broken := published.not_promised(manifest, published_contract):
        raise Unexpected("; ".join(RELIED_ON[name] for name in broken))


def schema(probe: Probe) -> None:
    manifest, published_contract = _manifest_of(probe), _published(probe)
    if places := published.other_arguments(manifest, published_contract):
        more = f" and {len(places) - MOST_SHOWN} more" if len(places) > MOST_SHOWN else ""
        raise Unexpected(f"they differ at {', '.join(places[:MOST_SHOWN])}{more}")


def _manifest_of(probe: Probe) -> HttpManifest:
    if probe.manifest is None:
        raise Skipped("say what it is compared with: --manifest FILE")
    return probe.manifest


def _published(probe: Probe) -> Mapping[str, Any]:
    """Raises ``Skipped`` where there is none, ``Unexpected`` where it is no contract."""
    heard: Heard = probe.contract()
    if heard.response is not None and heard.response.status_code in PUBLISHES_NONE:
        raise Skipped("the service publishes no contract")
    published_contract = heard.answer.body
    if heard.answer.status != 200:
        raise Unexpected(str(heard))
    name = (
        probe.manifest.name if probe.manifest is not None else str(published_contract.get("name"))
    )
    try:
        published.check(dict(published_contract), name)
    except Unusable as refusal:
        raise Unexpected(str(refusal)) from None
    return published_contract
