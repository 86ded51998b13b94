"""The manifest of a tool that the proposing agent carries out itself (docs/permits.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ledger.tools.manifests.base import Manifest

HOUR, DAY = 3600, 86_400


class AgentManifest(Manifest):
    """A tool without an address: on sign-off its agent gets a permit, acts, and posts a receipt."""

    kind: Literal["agent"] = "agent"
    # The service that checks the permit: its ``aud``.
    audience: Annotated[str, Field(min_length=1, max_length=300, pattern=r"^\S+$")]
    # How long after sign-off a permit may be redeemed, and how long the agent may act then.
    redeem_within_s: Annotated[int, Field(ge=1, le=7 * DAY)] = HOUR
    acts_within_s: Annotated[int, Field(ge=1, le=DAY)] = 300
    # Copied into the permit, for the service that checks it.
    limits: dict[str, Any] = {}

    @model_validator(mode="after")
    def _promises_nothing_for_workers(self) -> Self:
        if self.contract.retry_safe:
            raise ValueError("leave retry_safe out: nobody but its agent could run it again")
        if self.contract.plan_max_age_s is not None:
            raise ValueError("leave plan_max_age_s out: nobody looks again before its agent begins")
        if len(self.limits) > 50:
            raise ValueError("limits has more than 50 members")
        return self
