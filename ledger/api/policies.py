"""REST for the policy documents that supervising agents decide by."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Path, Router

from ledger.agents import keep_policy, kept_policy
from ledger.api.http import BODY, AgentBearer, address_of, caller_of, json_response, refusals
from ledger.api.schemas import PolicyDocumentIn, PolicyDocumentOut
from ledger.errors import NotAllowed
from ledger.models import PolicyDocument, Scope

router = Router(auth=AgentBearer(), tags=["supervisors"])
Hash = Path(..., pattern="^[0-9a-f]{64}$", description="SHA-256 of the text as UTF-8.")


@router.post(
    "",
    operation_id="keepPolicy",
    response={200: PolicyDocumentOut, 201: PolicyDocumentOut, **refusals(*BODY, 403, 409)},
)
def keep(request: HttpRequest, body: PolicyDocumentIn) -> HttpResponse:
    """Keep a policy document, so that decisions can cite it by the SHA-256 of its text.

    It is never changed or deleted; sending it again changes nothing. Paragraphs are the lines that
    begin with a number, as `3. …`, `3.2 …` or `§ 3 …`.
    """
    caller = caller_of(request, Scope.DECIDE)
    document, is_new = keep_policy(
        caller.tenant,
        name=body.name,
        version=body.version,
        text=body.text,
        by=caller.principal,
    )
    return json_response(rendered(document), 201 if is_new else 200)


@router.get(
    "/{sha256}",
    operation_id="readPolicy",
    response={200: PolicyDocumentOut, **refusals(403, 404, 422)},
)
def read(request: HttpRequest, sha256: str = Hash) -> HttpResponse:
    """A policy document of the caller's tenant, for the scopes `decide` and `read_all`."""
    caller = caller_of(request)
    if not caller.scopes & {Scope.DECIDE, Scope.READ_ALL}:
        raise NotAllowed("This token lacks the scope 'decide'.", scope=Scope.DECIDE.value)
    return json_response(rendered(kept_policy(caller.tenant, sha256)))


def rendered(document: PolicyDocument) -> dict[str, object]:
    return {
        "sha256": document.sha256,
        "name": document.name,
        "version": document.version,
        "text": document.text,
        "paragraphs": [number for number, _ in document.paragraphs],
        "added_by": document.added_by,
        "at": document.at.isoformat(),
        "desk": address_of(f"/policies/{document.tenant}/{document.sha256}/"),
    }
