"""SCIM over HTTP (RFC 7644), for whoever has the token: read the request, call one verb, answer."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import scim2_models as scim
from django.conf import settings
from django.core.exceptions import RequestDataTooBig, ValidationError
from django.db import IntegrityError
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from pydantic import ValidationError as NotAsDescribed
from scim2_models import Context, Error
from scim2_models.path import AttrPath, CompareOperator, Comparison

from approvals.scim import groups, people
from approvals.scim.models import Entry
from approvals.scim.resources import MOST, MOST_OPERATIONS, SERVICE, Group, Person, person_of
from ledger.api.http import parse_json, token_in
from ledger.errors import LedgerError
from ledger.foundation.characters import is_storable

Handler = Callable[..., HttpResponse]
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
LAST = 2**31  # no list is as long
COLUMNS = {"username": "user__username__iexact", "externalid": "external_id"}


def door(**handlers: Handler) -> Handler:
    """A view with one handler for each method.

    404 where no token is set up, 401 without it; errors in SCIM's own form.
    """

    @csrf_exempt
    def view(request: HttpRequest, **place: Any) -> HttpResponse:
        if not (settings.SCIM_TOKEN and settings.SCIM_TENANT):
            raise Http404
        try:
            _require_token(request)
            if (handler := handlers.get(str(request.method))) is None:
                return _refused(Error(status=405, detail=f"Only {', '.join(handlers)}."))
            with SERVICE:
                return handler(request, **place)
        except scim.SCIMException as refusal:
            return _refused(refusal.to_error())
        except IntegrityError:  # somebody at the desk was faster
            return _refused(scim.UniquenessException().to_error())
        except NotAsDescribed as refusal:
            return _refused(Error.from_validation_errors(refusal)[0])
        except ValidationError as refusal:
            text = " ".join(refusal.messages)
            return _refused(Error(status=400, scim_type="invalidValue", detail=text))
        except LedgerError as refusal:
            return _refused(Error(status=refusal.status, detail=str(refusal)))

    view.methods = sorted(handlers)  # type: ignore[attr-defined]
    return view


def _require_token(request: HttpRequest) -> None:
    token = token_in(request.headers.get("Authorization", "").encode("latin-1", "replace"))
    if not secrets.compare_digest(token.encode(), settings.SCIM_TOKEN.encode()):
        raise scim.UnauthorizedException(detail="Send Authorization: Bearer <ASSENT_SCIM_TOKEN>.")


def _answer(content: dict[str, Any], status: int = 200) -> HttpResponse:
    return JsonResponse(content, status=status, content_type="application/scim+json")


def _refused(error: Error) -> HttpResponse:
    response = _answer(error.model_dump(), error.status or 400)
    if error.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def _sent(model: Any, request: HttpRequest, context: Context) -> Any:
    try:
        body = parse_json(request.body)
    except RequestDataTooBig:
        raise scim.PayloadTooLargeException from None
    except (ValueError, RecursionError):
        raise scim.InvalidSyntaxException(detail="This is no JSON that can be stored.") from None
    return model.model_validate(body, scim_ctx=context)


# --- reading --------------------------------------------------------------------------------------


def _told(resource: Any, asked: Any = None) -> dict[str, Any]:
    """As JSON, with the attributes that were asked for."""
    context = Context.RESOURCE_QUERY_RESPONSE
    told: dict[str, Any] = resource.model_dump(scim_ctx=context, response_parameters=asked)
    return told


def _shown(request: HttpRequest, resource: Any, status: int = 200) -> HttpResponse:
    asked = scim.ResponseParameters[type(resource)].model_validate(request.GET.dict())  # type: ignore[misc]
    return _answer(_told(resource, asked), status)


def _several(resources: list[Any], total: int, begin: int = 0, asked: Any = None) -> HttpResponse:
    content = {"schemas": [LIST], "totalResults": total, "startIndex": begin + 1}
    told = [_told(each, asked) for each in resources]
    return _answer({**content, "itemsPerPage": len(told), "Resources": told})


def _asked(request: HttpRequest, model: Any, *names: str) -> tuple[Any, tuple[str, str] | None]:
    """The query of a list, and the attribute and value of its filter, if there is one."""
    context = Context.SEARCH_REQUEST
    asked = scim.SearchRequest[model].model_validate(request.GET.dict(), scim_ctx=context)
    if asked.filter is None:
        return asked, None
    match asked.filter.ast:
        case Comparison(AttrPath(attr, None), CompareOperator.eq, str(value)):
            if attr.lower() in names and is_storable(value):
                return asked, (attr.lower(), value)
    raise scim.InvalidFilterException(detail=f"Only eq, and of {' or '.join(names)}.")


def _page(asked: Any, rows: Any) -> tuple[list[Any], int]:
    begin = min((asked.start_index or 1) - 1, LAST)
    most = min(MOST if asked.count is None else asked.count, MOST)
    return list(rows[begin : begin + most]), begin


def list_people(request: HttpRequest) -> HttpResponse:
    asked, compared = _asked(request, Person, *COLUMNS)
    wanted = Q(**{COLUMNS[compared[0]]: compared[1]}) if compared else Q()
    rows = Entry.objects.filter(wanted).select_related("user").order_by("pk")
    entries, begin = _page(asked, rows)
    return _several(list(map(person_of, entries)), rows.count(), begin, asked)


def list_groups(request: HttpRequest) -> HttpResponse:
    asked, compared = _asked(request, Group, "displayname")
    # To the letter: who makes a group with almost the name of ours gets into no other.
    every = [each for each in groups.served() if compared is None or each == compared[1]]
    names, begin = _page(asked, every)
    return _several(list(map(groups.shown, names)), len(every), begin, asked)


def show_person(request: HttpRequest, person_id: int) -> HttpResponse:
    return _shown(request, person_of(people.entry_of(person_id)))


def show_group(request: HttpRequest, group_id: str) -> HttpResponse:
    return _shown(request, groups.shown(groups.named(group_id)))


# --- writing --------------------------------------------------------------------------------------


def make_person(request: HttpRequest) -> HttpResponse:
    made = person_of(people.make(_sent(Person, request, Context.RESOURCE_CREATION_REQUEST)))
    response = _shown(request, made, 201)
    response["Location"] = str(made.meta.location if made.meta else "")
    return response


def change_person(request: HttpRequest, person_id: int) -> HttpResponse:
    try:
        changed = people.change(person_id, _edit(request, Person))
    except (scim.SCIMException, NotAsDescribed):
        if not _says_who_leaves(request):
            raise
        changed = people.close(person_id)
    return _shown(request, person_of(changed))


def _says_who_leaves(request: HttpRequest) -> bool:
    """True if the request sets ``active`` to false, however little of the rest is understood."""
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError, RequestDataTooBig):
        return False
    return any(_switches_off(each) for each in _attributes_in(body))


def _attributes_in(body: Any) -> Iterator[tuple[str, Any]]:
    """Names and values that a PUT, or the operations of a PATCH, set."""
    if not isinstance(body, dict):
        return
    yield from body.items()
    operations = body.get("Operations")
    for each in operations if isinstance(operations, list) else ():
        if isinstance(each, dict) and str(each.get("op")).lower() in ("add", "replace"):
            path, value = each.get("path"), each.get("value")
            if path:
                yield str(path), value
            elif isinstance(value, dict):
                yield from value.items()


def _switches_off(attribute: tuple[str, Any]) -> bool:
    name, value = attribute
    is_false = value is False or (isinstance(value, str) and value.lower() == "false")
    return is_false and name.rpartition(":")[2].lower() == "active"


def close_person(request: HttpRequest, person_id: int) -> HttpResponse:
    """An account is never deleted: what its person signed stays signed."""
    people.close(person_id)
    return HttpResponse(status=204)


def change_group(request: HttpRequest, group_id: str) -> HttpResponse:
    return _shown(request, groups.change(group_id, _edit(request, Group)))


def _edit(request: HttpRequest, model: Any) -> Callable[[Any], Any]:
    """The change that PUT or PATCH makes of a resource. What a PUT leaves out stays as it is."""
    if request.method == "PATCH":
        patch = _sent(scim.PatchOp[model], request, Context.RESOURCE_PATCH_REQUEST)
        if len(patch.operations or []) > MOST_OPERATIONS:
            raise scim.PayloadTooLargeException(
                detail=f"A PATCH has at most {MOST_OPERATIONS} operations. Nothing was changed: "
                "send several, or one operation with several values."
            )

        def patched(resource: Any) -> Any:
            patch.patch(resource)
            return resource

        return patched
    sent = _sent(model, request, Context.RESOURCE_REPLACEMENT_REQUEST)
    ours = {"id", "meta", "schemas"}
    named = {name: getattr(sent, name) for name in sent.model_fields_set - ours}
    return lambda resource: resource.model_copy(update=named)


def refuse_group(request: HttpRequest) -> HttpResponse:
    wanted = _sent(Group, request, Context.RESOURCE_CREATION_REQUEST)
    if wanted.display_name in groups.served():
        raise scim.UniquenessException(detail="The desk has this group: change its members.")
    raise scim.ForbiddenException(
        detail="Groups are those that ASSENT_OIDC_ROLES and ASSENT_OIDC_GROUPS name as "
        "scim=<group>:…, and no others. Nothing was made."
    )


# --- what the service says of itself --------------------------------------------------------------


def service(request: HttpRequest) -> HttpResponse:
    return _shown(request, SERVICE.config)


def resource_types(request: HttpRequest, key: str = "") -> HttpResponse:
    return _described(request, SERVICE.resource_types, key)


def schemas(request: HttpRequest, key: str = "") -> HttpResponse:
    return _described(request, SERVICE.schemas, key)


def _described(request: HttpRequest, every: Any, key: str) -> HttpResponse:
    if "filter" in request.GET:  # RFC 7644, section 4
        raise scim.ForbiddenException(detail="These cannot be filtered.")
    if not key:
        return _several(list(every), len(every))
    resource = next((each for each in every if each.id == key), None)
    return _shown(request, resource) if resource is not None else nothing(request)


def nothing(request: HttpRequest, **place: Any) -> HttpResponse:
    raise scim.NotFoundException(detail="There is nothing here.")
