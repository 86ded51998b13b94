"""The tools over REST: their contracts, and calls of read-only tools."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ledger.agents import unknown
from ledger.api.fast.readings import ToolFailed, read_with
from ledger.api.http import BODY, AgentBearer, caller_of, problem, refusals
from ledger.api.schemas import CallIn, CallOut, ToolOut
from ledger.contracts import ReadonlyTool, Tool
from ledger.errors import InvalidRequest
from ledger.models import Scope
from ledger.tools import readonly_named, readonly_tools_of, tool_named, tools_of

router = Router(auth=AgentBearer(), tags=["tools"])


@router.get(
    "",
    operation_id="listTools",
    response={200: list[ToolOut], **refusals()},
)
def list_tools(request: HttpRequest) -> list[dict[str, Any]]:
    """Every tool that the caller may use: what it promises, the JSON Schema of its arguments."""
    caller = caller_of(request)
    return [
        *(
            describe(tool)
            for name, tool in tools_of([caller.tenant]).items()
            if caller.may_use(name)
        ),
        *(
            describe_readonly(tool)
            for name, tool in readonly_tools_of([caller.tenant]).items()
            if caller.may_use(name)
        ),
    ]


@router.get(
    "/{name}",
    operation_id="readTool",
    response={200: ToolOut, **refusals(404)},
)
def read_tool(request: HttpRequest, name: str) -> dict[str, Any]:
    """One tool, with what it promises and the JSON Schema of its arguments."""
    caller = caller_of(request)
    if not caller.may_use(name):
        raise unknown(name)
    readonly = readonly_named(caller.tenant, name)
    if readonly is not None:
        return describe_readonly(readonly)
    tool = tool_named(caller.tenant, name)
    if tool is None:
        raise unknown(name)
    return describe(tool)


@router.post(
    "/{name}/call",
    operation_id="callTool",
    response={200: CallOut, **refusals(*BODY, 403, 404, 502)},
)
def call_readonly(request: HttpRequest, name: str, body: CallIn) -> HttpResponse:
    """Run a read-only tool. It needs no sign-off and is recorded."""
    caller = caller_of(request, Scope.PROPOSE)
    if not caller.may_use(name):
        raise unknown(name)
    tool = readonly_named(caller.tenant, name)
    if tool is None:
        if tool_named(caller.tenant, name) is not None:
            raise InvalidRequest(
                f"{name} changes the world; it cannot be called.",
                hint="Propose it: POST /api/v1/transactions.",
            )
        raise unknown(name)
    try:
        reading_id, text = read_with(caller, tool, body.arguments)
    except ToolFailed as failure:
        return problem(502, "tool_failed", "The tool failed", str(failure), "Try again later.")
    answer = f'{{"reading_id": "{reading_id}", "result": {text}}}'
    return HttpResponse(answer, content_type="application/json")


def describe(tool: Tool[Any, Any]) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "kind": "transactional",
        "input_schema": tool.arguments_model.model_json_schema(),
        **tool.contract.published(),
        "companions": sorted(tool.companions),
    }


def describe_readonly(tool: ReadonlyTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "kind": "readonly",
        "owner_service": tool.owner_service,
        "input_schema": tool.arguments_model.model_json_schema(),
        "timeout_s": tool.timeout.total_seconds(),
    }
