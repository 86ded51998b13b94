"""The tools over REST: their contracts, and calls of read-only tools."""

from __future__ import annotations

import hashlib
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic_core import to_jsonable_python

from ledger import contracts, intents
from ledger.agents import allowances
from ledger.api.schemas import CallIn, CallOut, ToolOut
from ledger.characters import without_nul
from ledger.contracts import ReadonlyTool, Tool
from ledger.errors import InvalidRequest, UnknownTool
from ledger.http import AgentBearer, caller_of, problem
from ledger.http.schemas import BODY, refusals
from ledger.models import Reading, Scope

logger = logging.getLogger(__name__)
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
        *(describe(tool) for name, tool in contracts.tools.items() if caller.may_use(name)),
        *(
            describe_readonly(tool)
            for name, tool in contracts.readonly_tools.items()
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
    if not caller_of(request).may_use(name):
        raise allowances.unknown(name)
    if name in contracts.readonly_tools:
        return describe_readonly(contracts.readonly_tools[name])
    return describe(contracts.tool_named(name))


@router.post(
    "/{name}/call",
    operation_id="callTool",
    response={200: CallOut, **refusals(*BODY, 403, 404, 502)},
)
def call_readonly(request: HttpRequest, name: str, body: CallIn) -> HttpResponse:
    """Run a read-only tool. It needs no sign-off and is recorded."""
    caller = caller_of(request, Scope.PROPOSE)
    if not caller.may_use(name):
        raise allowances.unknown(name)
    tool = contracts.readonly_tools.get(name)
    if tool is None:
        if name in contracts.tools:
            raise InvalidRequest(
                f"{name} changes the world; it cannot be called.",
                hint="Propose it: POST /api/v1/transactions.",
            )
        raise UnknownTool(f"There is no read-only tool named {name!r:.80}.")
    intents.refuse_unsafe_text(body.arguments)
    arguments = tool.validate(body.arguments)
    reading = Reading(
        tenant=caller.tenant,
        agent=str(caller.principal),
        tool=name,
        arguments=arguments.model_dump(mode="json"),
    )
    try:
        result = _in_time(
            tool, **{field: getattr(arguments, field) for field in type(arguments).model_fields}
        )
        text = json.dumps(to_jsonable_python(result, fallback=repr, inf_nan_mode="strings"))
    except Exception as failure:
        logger.warning("%s failed", name, exc_info=True)
        reading.error = without_nul(f"{type(failure).__name__}: {failure}"[:2000])
        reading.save()
        return problem(
            502, "tool_failed", "The tool failed", f"{name} did not answer.", "Try again later."
        )
    reading.result_hash = hashlib.sha256(text.encode()).hexdigest()
    reading.save()
    answer = f'{{"reading_id": "{reading.pk}", "result": {text}}}'
    return HttpResponse(answer, content_type="application/json")


def _in_time(tool: ReadonlyTool, **arguments: Any) -> Any:
    """The tool's result. Raises ``TimeoutError``; the thread of a tool that hangs is abandoned."""
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=tool.name)
    try:
        return pool.submit(tool, **arguments).result(tool.timeout.total_seconds())
    finally:
        pool.shutdown(wait=False)


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
