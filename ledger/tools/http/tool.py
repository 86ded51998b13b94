"""``HttpTool``: a tool whose functions are requests to the service of its owner."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from ledger.contracts import Context, NotDoneYet, NothingHappened, NothingHappenedYet, Plan, Role
from ledger.contracts.evidence import from_json
from ledger.foundation import characters
from ledger.tools.http import answers, exchange
from ledger.tools.http.answers import AskLater, Done, Meaning, NotProved, Refused
from ledger.tools.http.exchange import Secrets, Service, Showing, show_nothing
from ledger.tools.manifests import HttpManifest, ManifestTool


class HttpTool(ManifestTool):
    """One version of a tool over HTTP. Equal manifests are equal tools."""

    def __init__(
        self,
        manifest: HttpManifest,
        showing: Showing = show_nothing,
        secrets: Secrets | None = None,
    ) -> None:
        """At each call ``showing`` and ``secrets`` find the credential and the signing secret that
        the manifest names."""
        super().__init__(manifest, companions=manifest.routes)
        self.service = Service(manifest.address, showing, secrets)
        self.receipts_are_complete = manifest.receipts_are_complete
        self.runs_at, self.asked_over = urlsplit(manifest.address).netloc, "http"

    def run(self, role: Role, arguments: BaseModel, context: Context) -> Any:
        """Ask the owner's service. Raises ``NothingHappened`` where the answer proves that;
        anything else that it raises means that the outcome is not known."""
        if role == "find_receipt":
            return self._find_receipt(context)
        verb = "commit" if role == "execute" else role
        meaning = exchange.ask(self.service, verb, self._body(arguments, context), context)
        if isinstance(meaning, AskLater) and role != "still_valid":
            if role == "execute" and self.has("find_receipt"):
                raise _not_done_yet(meaning)
            meaning = self._wait_for(context, meaning)
        return _value_of(role, _done(meaning))

    def _operation(self, context: Context) -> dict[str, Any]:
        return {
            "tool": self.name,
            "version": self.version,
            "operation_key": context.operation_key,
            "transaction_id": str(context.transaction_id),
            "tenant": context.tenant,
        }

    def _body(self, arguments: BaseModel, context: Context) -> dict[str, Any]:
        return {
            **self._operation(context),
            "fencing": context.attempt,
            "lease_until": context.lease_until and context.lease_until.isoformat(),
            "arguments": arguments.model_dump(mode="json"),
            "held": dict(context.held),
            "receipt": dict(context.result) or None,
        }

    def _find_receipt(self, context: Context) -> dict[str, Any] | None:
        meaning = self._look_up(context)
        if meaning is None:
            return None
        if isinstance(meaning, AskLater):
            raise _not_done_yet(meaning)
        return _receipt_in(_done(meaning))

    def _wait_for(self, context: Context, later: AskLater) -> Meaning:
        """Ask for the operation until it is done, as long as one call may take."""
        deadline = exchange.deadline_of(context)
        while exchange.pause(later.after_s, deadline):
            try:
                meaning = self._look_up(context)
            except NothingHappenedYet:
                continue  # the look-up was not sent; what was accepted may be done all the same
            if isinstance(meaning, Done | Refused):
                return meaning
        raise NotProved("It accepted the operation, and was not done in time.")

    def _look_up(self, context: Context) -> Meaning | None:
        answer = exchange.look_up(self.service, self._operation(context), context)
        return answers.meaning_of_operation(answer, is_complete=self.receipts_are_complete)


def _not_done_yet(later: AskLater) -> NotDoneYet:
    return NotDoneYet(after=timedelta(seconds=later.after_s))


def _done(meaning: Meaning) -> Mapping[str, Any]:
    """The body of what was done. Raises ``NothingHappened``."""
    match meaning:
        case Done(body):
            return body
        case Refused(why, may_be_called_again=True):
            raise NothingHappenedYet(why)
        case Refused(why):
            raise NothingHappened(why)
        case _:
            raise NotProved("It accepted the operation, and was not done in time.")


def _value_of(role: Role, body: Mapping[str, Any]) -> Any:
    """The value that the function of a Python tool would return for this role."""
    match role:
        case "plan" | "replan":
            return _plan_in(body)
        case "still_valid":
            return _validity_in(body)
        case "execute":
            return _receipt_in(body)
        case "compensate":
            return _compensation_in(body)
        case _:
            return None


def _receipt_in(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """``None`` if its id is neither a text nor a whole number. It is what people compare, so two
    that look equal are equal."""
    receipt = body.get("receipt")
    name = receipt.get("id") if isinstance(receipt, Mapping) else None
    if isinstance(name, bool) or not isinstance(name, str | int):
        return None
    assert isinstance(receipt, Mapping)
    return {**receipt, "id": characters.cleaned(name) if isinstance(name, str) else name}


def _compensation_in(body: Mapping[str, Any]) -> str:
    receipt = _receipt_in(body)
    if receipt is None or receipt["id"] == "":
        raise NotProved("Its answer holds no receipt of what it made good.")
    return str(receipt["id"])


def _validity_in(body: Mapping[str, Any]) -> bool:
    is_valid = body.get("still_valid")
    if not isinstance(is_valid, bool):
        raise NotProved("Its answer does not say still_valid: true or false.")
    return is_valid


def _plan_in(body: Mapping[str, Any]) -> Plan:
    plan = body.get("plan")
    if not isinstance(plan, Mapping) or not isinstance(plan.get("summary"), str):
        raise NotProved("Its answer holds no plan with a summary.")
    return Plan(
        summary=plan["summary"],
        warnings=[str(warning) for warning in _list_in(plan, "warnings")],
        amount=_amount_in(plan),
        currency=str(plan.get("currency") or ""),
        arguments=_object_in(plan, "arguments"),
        held=_object_in(plan, "held"),
        hold_expires_at=_time_in(plan),
        evidence=from_json(_list_in(plan, "evidence")),
        risk_level=str(plan.get("risk_level") or ""),
    )


def _list_in(plan: Mapping[str, Any], name: str) -> list[Any]:
    value = plan.get(name) or []
    if not isinstance(value, list):
        raise NotProved(f"{name} of its plan is not a list.")
    return value


def _object_in(plan: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = plan.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise NotProved(f"{name} of its plan is not an object.")
    return value


def _amount_in(plan: Mapping[str, Any]) -> Decimal | None:
    """Amounts are text, as in our own API: JSON's numbers lose digits."""
    value = plan.get("amount")
    if value is None:
        return None
    try:
        return Decimal(value) if isinstance(value, str) else Decimal(str(value))
    except InvalidOperation:
        raise NotProved("The amount of its plan is not a number.") from None


def _time_in(plan: Mapping[str, Any]) -> datetime | None:
    value = plan.get("hold_expires_at")
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        raise NotProved("hold_expires_at of its plan is not a time.") from None
    if at.tzinfo is None:
        raise NotProved("hold_expires_at of its plan has no time zone.")
    if at <= datetime.now(UTC):
        raise NotProved("hold_expires_at of its plan is over: look at the clocks.")
    return at
