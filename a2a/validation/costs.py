"""The cost of a task, as its worker says it: money, tokens of a model, or both."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from ledger.contracts import CURRENCIES


class Cost(BaseModel):
    """As ``{"amount": "0.42", "currency": "EUR", "tokens": 18200}``; money has both members."""

    amount: Annotated[str, Field(pattern=r"^\d{1,12}(\.\d{1,6})?$")] | None = None
    currency: str | None = Field(None, description="ISO 4217.", examples=["EUR"])
    tokens: Annotated[int, Field(ge=0, le=10**15, strict=True)] | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Cost:
        if self.currency is not None and self.currency not in CURRENCIES:
            raise ValueError("The currency is none of ISO 4217.")
        if (self.amount is None) != (self.currency is None):
            raise ValueError("An amount has a currency.")
        if self.amount is None and self.tokens is None:
            raise ValueError("It has an amount, or tokens.")
        return self

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


def cost_in(metadata: Any) -> dict[str, Any] | None:
    """The ``cost`` in what others sent along with an answer; ``None`` for what is none."""
    try:
        return Cost.model_validate(metadata["cost"]).as_json()
    except (KeyError, TypeError, ValidationError):
        return None
