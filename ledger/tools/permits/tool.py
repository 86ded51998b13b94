"""``PermitTool``: a tool that no worker carries out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from ledger.contracts import Context, NothingHappened, Role
from ledger.tools.manifests import AgentManifest, ManifestTool


class PermitTool(ManifestTool):
    """One version of a tool that the proposing agent carries out, with a permit."""

    manifest: AgentManifest

    def __init__(self, manifest: AgentManifest) -> None:
        super().__init__(manifest, ())
        self.permit_for = manifest.audience

    @property
    def redeem_within(self) -> timedelta:
        """Time after sign-off within which a permit may be redeemed."""
        return timedelta(seconds=self.manifest.redeem_within_s)

    @property
    def acts_within(self) -> timedelta:
        """Time the agent may act after that, before it is in doubt."""
        return timedelta(seconds=self.manifest.acts_within_s)

    def run(self, role: Role, arguments: BaseModel, context: Context) -> Any:
        """Never called: workers leave these transactions alone."""
        raise NothingHappened("Only the agent that proposed it can carry it out.")
