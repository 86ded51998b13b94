"""The JSON shapes that every REST interface shares."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Field, Schema
from pydantic import ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from ledger.foundation import characters
from ledger.transactions import OutcomeKind

Text200 = Annotated[str, Field(max_length=200)]
Reason = Annotated[str, Field(max_length=2000)]


class In(Schema):
    """The document says of each text which characters are always refused; ``ledger.seals`` does it,
    in words that help.
    """

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        described = handler(core_schema)
        for member in handler.resolve_ref_schema(described).get("properties", {}).values():
            _say_of_texts(member)
        return described


def _say_of_texts(schema: dict[str, Any]) -> None:
    if schema.get("type") == "string" and not {"format", "enum", "const"} & set(schema):
        schema.setdefault("pattern", characters.WITHOUT_CONTROLS)
    for inner in (schema.get("items"), *schema.get("anyOf", ())):
        if isinstance(inner, dict):
            _say_of_texts(inner)


class FieldError(Schema):
    field: str = Field(description="Where in the request; empty: all of it.")
    message: str


class OutcomeOut(Schema):
    """How the transaction stands, for programs and for the model behind an agent."""

    kind: OutcomeKind = Field(description="`pending` and `in_doubt` are not final.")
    is_final: bool = Field(description="Nothing more will come of it: go on.")
    sentence: str = Field(description="To be given to the model as it is.")
    do_not_retry: bool = Field(
        description="Do not propose it again, in this or another form, unless a person asks for it."
    )


class Problem(Schema):
    """RFC 9457. ``type`` is stable; ``detail`` says what happened, ``hint`` what to do next."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    code: str = Field(description="The last part of `type`; docs/errors.md lists them.")
    errors: list[FieldError] = Field([], description="What is wrong with which field.")
    outcome: OutcomeOut | None = Field(None, description="Of `plan_refused`: how it ended.")


def refusals(*statuses: int, is_open: bool = False) -> dict[int, type[Schema]]:
    """Refusals an operation may answer with: each has limits (429), most need a token (401)."""
    return dict.fromkeys((429, *statuses) if is_open else (401, 429, *statuses), Problem)


# What may be wrong with any body: no JSON, too large, not of the shape.
BODY = (400, 413, 422)
