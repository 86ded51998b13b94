"""Hot paths render by hand; what they render is what the schemas promise, field by field."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from ledger.api.rendering import as_json, beside_today, render_token
from ledger.api.schemas import Prepared, TransactionOut
from ledger.transactions import coordinator


def compare(schema: type[BaseModel], body: dict[str, Any]) -> None:
    """Every field of the body has its place in the schema, and its form as the schema writes it."""
    read = schema.model_validate_json(json.dumps(body), strict=False, extra="forbid")

    written = json.loads(read.model_dump_json(exclude_unset=True))

    assert set(body) >= {name for name, field in schema.model_fields.items() if field.is_required()}
    assert normal(written) == normal(body)


def normal(value: Any) -> Any:
    """Times and amounts have several spellings; the schema has one."""
    if isinstance(value, dict):
        return {name: normal(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    return value.replace("+00:00", "Z") if isinstance(value, str) else value


def test_a_transaction_is_rendered_as_its_schema_says(a_payment, alice):
    row = a_payment()
    row = coordinator.reject(
        row.pk, digest=row.intent_digest, by=alice, via="web", reason="Too much."
    )

    compare(TransactionOut, json.loads(json.dumps(as_json(row))))
    assert len(as_json(row)["decisions"]) == 1


def test_a_token_of_intent_is_rendered_as_its_schema_says(a_payment, helpdesk):
    row = a_payment()

    compare(Prepared, json.loads(render_token(row, duplicate_of=None)))
    compare(Prepared, json.loads(render_token(row, duplicate_of=row.pk)))


def test_a_replayed_answer_is_rendered_as_its_schema_says(a_payment, helpdesk):
    row = a_payment()
    token = render_token(row, duplicate_of=None)

    compare(Prepared, json.loads(beside_today(token, row, reader=str(helpdesk.principal))))
