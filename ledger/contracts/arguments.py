"""The arguments of a tool: its signature as a pydantic model, and their canonical JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import to_jsonable_python

from ledger.errors import InvalidArguments, Sentence

SUMMARY_MAX = 3_000  # characters


def validated(model: type[BaseModel], name: str, arguments: Any) -> BaseModel:
    """The arguments of the tool ``name`` as its model.

    Raises ``InvalidArguments`` with one entry in ``errors`` per field, 50 at most.
    """
    try:
        return model.model_validate(arguments)
    except ValidationError as refusal:
        errors = [
            {"field": ".".join(map(str, error["loc"])) or "arguments", "message": error["msg"]}
            for error in refusal.errors(include_url=False, include_context=False)
        ]
        raise InvalidArguments(
            Sentence(
                "{number} arguments of {name} cannot be used as sent.",
                number=len(errors),
                name=name,
            )
            if len(errors) > 1
            else Sentence("1 argument of {name} cannot be used as sent.", name=name),
            errors=errors[:50],
        ) from refusal


def model_of(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """The signature of a function as a pydantic model; ``context`` is not an argument."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "context":
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    config = ConfigDict(extra="forbid", allow_inf_nan=False, str_max_length=10_000, frozen=True)
    return create_model(name, __config__=config, **fields)


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"


def meaning(value: Any) -> Any:
    """The value as JSON in which Decimals that are equal are the same text."""
    if isinstance(value, Decimal):
        return _plain(value)
    if isinstance(value, BaseModel):
        return {name: meaning(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): meaning(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [meaning(item) for item in value]
    return to_jsonable_python(value)


def plain_summary(name: str, arguments: BaseModel) -> str:
    """``Refund customer: payment_id pay_1, amount 5.00``, for tools without a ``plan``."""
    listed = ", ".join(f"{key} {value}" for key, value in arguments.model_dump(mode="json").items())
    return f"{name.replace('_', ' ').capitalize()}: {listed}"[:SUMMARY_MAX]
