"""Evidence in the answer of a tool over HTTP (docs/http-tools.md)."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from ledger.contracts.evidence.kinds import Difference, Evidence, File, Table, Text
from ledger.errors import PlanFailed


def _decoded(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("base64 is a text")
    return base64.b64decode(value, validate=True)


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str


class _Text(_In):
    kind: Literal["text"]
    text: str

    def evidence(self) -> Evidence:
        return Text(self.name, self.text)


class _Table(_In):
    kind: Literal["table"]
    columns: list[str]
    rows: list[list[str | int | None]]

    def evidence(self) -> Evidence:
        return Table(self.name, self.columns, self.rows)


class _Difference(_In):
    kind: Literal["difference"]
    before: str
    after: str

    def evidence(self) -> Evidence:
        return Difference(self.name, self.before, self.after)


class _File(_In):
    kind: Literal["file"]
    media_type: str
    content: Annotated[bytes, BeforeValidator(_decoded)]

    def evidence(self) -> Evidence:
        return File(self.name, self.media_type, self.content)


_Pieces = TypeAdapter(
    list[Annotated[_Text | _Table | _Difference | _File, Field(discriminator="kind")]]
)


def from_json(value: object) -> list[Evidence]:
    """Raises ``PlanFailed``, naming the place, for what is not as the documentation has it."""
    try:
        return [piece.evidence() for piece in _Pieces.validate_python(value)]
    except ValidationError as refusal:
        first = refusal.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "evidence"
        raise PlanFailed(f"The evidence of its plan: {place[:80]}: {first['msg'][:200]}") from None
