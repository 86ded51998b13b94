"""The manifest of a tool over HTTP (docs/http-tools.md): where it runs, and what it answers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ledger.foundation import http_out
from ledger.tools.manifests.base import Manifest, check_host

CredentialName = Annotated[str, Field(pattern=r"^([a-z][a-z0-9_-]{0,62})?$")]
Address = Annotated[str, Field(max_length=500), AfterValidator(lambda text: text.rstrip("/"))]
Route = Literal["plan", "replan", "still_valid", "rollback", "compensate", "find_receipt"]


class HttpManifest(Manifest):
    """A tool that the service of its owner carries out."""

    added_later: ClassVar[frozenset[str]] = frozenset({"credential", "signing_secret"})

    kind: Literal["http"] = "http"
    address: Address
    routes: list[Route] = []
    # A 404 for an operation proves that it was not carried out and never will be.
    receipts_are_complete: bool = False
    # The name of a credential of the tenant that the service asks for; empty: none.
    credential: CredentialName = ""
    # The name of a signing secret of the tenant: requests are webhooks that it signs. Empty: they
    # are signed with our key (RFC 9421).
    signing_secret: CredentialName = ""

    @property
    def is_asked_again(self) -> bool:
        return "find_receipt" in self.routes

    @model_validator(mode="after")
    def _can_be_called(self) -> Self:
        _check_address(self.address)
        if len(set(self.routes)) < len(self.routes):
            raise ValueError("a route is named twice")
        if "replan" in self.routes and "plan" not in self.routes:
            raise ValueError("the route replan needs the route plan")
        if self.receipts_are_complete and "find_receipt" not in self.routes:
            raise ValueError("receipts_are_complete needs the route find_receipt")
        return self


def _check_address(address: str) -> None:
    try:
        http_out.check_form(address)
    except http_out.AddressRefused as refusal:
        raise ValueError(f"the address cannot be called: {str(refusal).rstrip('.')}") from None
    check_host(address)
    if "?" in address or "#" in address:
        raise ValueError("the address has no query and no fragment")
