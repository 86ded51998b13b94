"""The workflow of examples/n8n asks Assent for what it has, in its terms."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.conf import settings
from jsonschema_rs import Draft202012Validator

from approvals.api import api

DOCUMENT: dict[str, Any] = api.get_openapi_schema(path_prefix="/api/v1/")
SCHEMAS = DOCUMENT["components"]["schemas"]
WORKFLOW = json.loads((settings.BASE_DIR / "examples/n8n/refund.json").read_text())
NODES = {node["name"]: node for node in WORKFLOW["nodes"]}
REQUESTS = {
    name: node["parameters"]
    for name, node in NODES.items()
    if node["type"] == "n8n-nodes-base.httpRequest"
}
GIVEN = json.loads(NODES["Proposal"]["parameters"]["jsonOutput"])


def names(request: dict[str, Any], kind: str) -> set[str]:
    return {one["name"] for one in request.get(kind, {}).get("parameters", [])}


def operation_of(request: dict[str, Any]) -> dict[str, Any]:
    address, path = request["url"].removeprefix("=").split("}}", 1)
    assert address == "{{ $('Proposal').first().json.assent "
    path = re.sub(r"\{\{.*?\.transaction_id \}\}", "{transaction_id}", path)
    operation: dict[str, Any] = DOCUMENT["paths"][path][request["method"].lower()]
    return operation


@pytest.mark.parametrize("name", REQUESTS)
def test_each_request_is_an_operation_with_the_parameters_and_the_body_that_it_takes(
    name: str,
) -> None:
    request = REQUESTS[name]
    operation = operation_of(request)

    known = {(one["in"], one["name"]): one for one in operation.get("parameters", [])}
    sent = {("query", one) for one in names(request, "queryParameters")}
    sent |= {("header", one) for one in names(request, "headerParameters")}
    assert sent <= set(known)
    assert {key for key, one in known.items() if one.get("required")} <= sent | {
        ("path", "transaction_id")
    }
    assert request.get("sendBody", False) == ("requestBody" in operation)
    if request.get("sendBody"):
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = GIVEN[request["jsonBody"].rpartition(".")[2].removesuffix(" }}")]
        validator = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
        assert list(validator.iter_errors(body)) == []


def test_it_branches_on_members_that_a_transaction_has() -> None:
    rules = json.dumps(NODES["How is it?"]["parameters"])
    read = re.findall(r"\$json\.body\.(\w+)(?:\.(\w+))?", rules)
    transaction = SCHEMAS["TransactionOut"]["properties"]

    assert {first for first, _ in read} == {"outcome", "question", "status"} <= set(transaction)
    assert {second for _, second in read if second} <= set(SCHEMAS["OutcomeOut"]["properties"])


def test_no_member_named_error_makes_n8n_try_a_request_again_that_succeeded() -> None:
    """It takes an answer with such a member for a failure, unless the answer lies in ``body``."""
    for name, request in REQUESTS.items():
        answers = operation_of(request)["responses"]
        content = next(one["content"] for one in answers.values() if "content" in one)
        answer = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        is_whole = request["options"].get("response", {}).get("response", {}).get("fullResponse")
        assert is_whole or "error" not in SCHEMAS[answer]["properties"], name


def test_it_ends_only_once_the_outcome_is_final() -> None:
    outputs = [one[0]["node"] for one in WORKFLOW["connections"]["How is it?"]["main"]]
    ends = [name for name in NODES if name not in WORKFLOW["connections"]]

    assert outputs == ["Answer", "Look", "Later", "Carried out", "Nothing done"]
    assert ends == ["Carried out", "Nothing done"]
