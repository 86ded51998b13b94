"""Arguments that a JSON Schema describes, as a pydantic model like those of Python tools."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from ledger.contracts import json_schemas


class SchemaArguments(BaseModel):
    """What was sent, once it fits ``schema``; members that were not sent stay away."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=10_000)
    schema_: ClassVar[dict[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _fits(cls, value: Any) -> Any:
        misfits = json_schemas.misfits(cls.schema_, value)
        if misfits:
            raise ValidationError.from_exception_data(
                cls.__name__, [_detail(misfit) for misfit in misfits]
            )
        return value

    @model_serializer
    def _as_sent(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        """The schema as it was written: pydantic would look for its references elsewhere."""
        return cls.schema_


def _detail(misfit: dict[str, str]) -> InitErrorDetails:
    place = tuple(step for step in misfit["field"].split(".") if step)
    # The text may hold braces, which would be read as a template.
    message = misfit["message"].replace("{", "(").replace("}", ")")
    return InitErrorDetails(type=PydanticCustomError("schema", message), loc=place, input=None)


def model_of(schema: dict[str, Any], name: str) -> type[SchemaArguments]:
    """A model with one field for each property; the schema decides what fits."""
    required = set(schema.get("required", ()))
    fields: dict[str, Any] = {
        prop: (Any, ... if prop in required else None) for prop in schema["properties"]
    }
    model = create_model(name, __base__=SchemaArguments, **fields)
    model.schema_ = schema
    return model
