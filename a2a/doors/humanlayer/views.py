"""The eight addresses. Each answers with JSON, whatever happens, and waits for nobody."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from a2a.doors.humanlayer import calls, contacts
from a2a.doors.humanlayer.bodies import Json
from ledger.agents import Caller, caller_with
from ledger.api.http import json_response, not_authenticated, parse_json, problem, problem_of
from ledger.errors import InvalidRequest, LedgerError, NotAllowed

# What an address does, given who asks, the body, and the id in the path if there is one.
Act = Callable[..., Json]


def _door(method: str) -> Callable[[Act], Callable[..., HttpResponse]]:
    """A view that lets agents in with this method, and answers with what the function returns."""

    def decorate(act: Act) -> Callable[..., HttpResponse]:
        @csrf_exempt
        @wraps(act)
        def view(request: HttpRequest, **path: str) -> HttpResponse:
            if request.method != method:
                return _wrong_method(method)
            caller = _caller(request)
            if caller is None:
                return not_authenticated()
            try:
                body = _body(request) if method == "POST" else None
                return json_response(act(caller, body, **path))
            except LedgerError as refusal:
                return problem_of(refusal)

        return view

    return decorate


def _caller(request: HttpRequest) -> Caller | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return caller_with(token.strip()) if scheme.lower() == "bearer" and token.strip() else None


def _body(request: HttpRequest) -> Any:
    try:
        return parse_json(request.body)
    except (ValueError, RecursionError) as refusal:
        raise InvalidRequest(f"The body is not JSON: {str(refusal)[:200]}") from refusal


def _wrong_method(method: str) -> HttpResponse:
    answer = problem(
        405,
        "method_not_allowed",
        "This method is not for this address",
        f"It takes {method} only.",
        "Nothing was changed.",
    )
    answer["Allow"] = method
    return answer


@_door("POST")
def function_call_created(caller: Caller, body: Any) -> Json:
    return calls.create(caller, body)


@_door("GET")
def function_call(caller: Caller, body: Any, call_id: str) -> Json:
    return calls.read_one(caller, call_id)


@_door("POST")
def contact_created(caller: Caller, body: Any) -> Json:
    return contacts.create(caller, body)


@_door("GET")
def contact(caller: Caller, body: Any, call_id: str) -> Json:
    return contacts.read_one(caller, call_id)


@_door("POST")
def call_answered(caller: Caller, body: Any, call_id: str) -> Json:
    """Ids are an agent's own, and so nobody who may decide could name this one."""
    calls.read_one(caller, call_id)
    raise NotAllowed("No agent decides on its own call.", hint="Wait: a person decides on it.")


@_door("POST")
def contact_answered(caller: Caller, body: Any, call_id: str) -> Json:
    contacts.task_of(caller, call_id)
    raise NotAllowed("No agent answers its own question.", hint="Wait: a person answers it.")


@_door("POST")
def call_escalated(caller: Caller, body: Any, call_id: str) -> Json:
    return calls.escalate(caller, call_id, body)


@_door("POST")
def contact_escalated(caller: Caller, body: Any, call_id: str) -> Json:
    return contacts.escalate(caller, call_id, body)
