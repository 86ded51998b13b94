"""The OpenAPI document: of the form, complete, and true of what is answered.

Schemathesis sends what the document allows and more: nothing surfaces as a 500, and nothing comes
back that the document does not have.
"""

from __future__ import annotations

import re
from typing import get_args

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from jsonschema_rs import Draft202012Validator
from openapi_spec_validator import validate
from pydantic import BaseModel

from approvals.api import api
from approvals.wsgi import application
from ledger.models import AgentToken, Scope
from ledger.transactions import coordinator
from tests.conftest import propose

METHODS = {"get", "post", "put", "patch", "delete"}
NOTEWORTHY = {
    "Retry-After",
    "Location",
    "ETag",
    "Idempotent-Replayed",
    "WWW-Authenticate",
    "Assent-Card-Version",
}


schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)


@pytest.fixture(scope="module")
def document():
    return schema.raw_schema


@pytest.fixture(scope="module")
def operations(document):
    return {
        (method.upper(), path): operation
        for path, found in document["paths"].items()
        for method, operation in found.items()
        if method in METHODS
    }


def test_the_document_is_openapi_as_its_specification_has_it(document):
    validate(document)


def test_every_operation_has_a_short_id_of_its_own(operations):
    """A client's method is named after it, so it must not change when a file is renamed."""
    ids = [operation["operationId"] for operation in operations.values()]

    assert [name for name in ids if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)+", name)] == []
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) <= 25
    assert {"prepareTransaction", "submitTask", "claimTask"} <= set(ids)


def test_it_says_where_it_is_whose_it_is_and_how_it_may_be_used(document, settings):
    addresses = [server["url"] for server in document["servers"]]
    assert addresses == [settings.PUBLIC_URL, settings.LIVE_URL]
    assert all(server["description"] for server in document["servers"])
    assert document["info"]["license"] == {"name": "MIT", "identifier": "MIT"}
    assert document["info"]["contact"]["url"] == settings.PUBLIC_URL
    assert document["info"]["description"]


def test_every_tag_is_declared_and_used(document, operations):
    declared = {tag["name"] for tag in document["tags"]}
    used = {tag for operation in operations.values() for tag in operation["tags"]}

    assert declared == used
    assert all(tag["description"] for tag in document["tags"])


def test_every_operation_and_parameter_is_described(operations):
    for where, operation in operations.items():
        assert len(operation["description"]) > 15, where
        assert operation["summary"][0].isupper(), where
        for parameter in operation["parameters"]:
            assert parameter["description"], (where, parameter["name"])


def test_every_refusal_is_a_problem(operations):
    for where, operation in operations.items():
        assert ("401" in operation["responses"]) == ("security" in operation), where
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
                assert response["content"] == {"application/problem+json": schema}, (where, status)


def test_an_operation_lists_only_refusals_that_it_has(operations):
    for (method, path), operation in operations.items():
        refused = {int(status) for status in operation["responses"] if int(status) >= 400}
        if method == "GET":
            assert not refused & {400, 409, 413, 502}, path
        assert (413 in refused) == ("requestBody" in operation), path
        assert 429 in refused, path
        assert (502 in refused) == (operation["operationId"] in {"prepareTransaction", "callTool"})


def test_the_idempotency_key_is_required_where_it_is(operations):
    def is_required(path):
        found = [
            p for p in operations["POST", path]["parameters"] if p["name"] == "Idempotency-Key"
        ]
        return found[0]["required"]

    assert is_required("/api/v1/transactions")
    assert not is_required("/api/v1/tasks")


@pytest.mark.parametrize(
    ("schema", "member"),
    [("TaskIn", "input"), ("CompleteIn", "result"), ("AnswerIn", "answer"), ("TaskOut", "result")],
)
def test_any_json_is_said_as_any_json(document, schema, member):
    described = document["components"]["schemas"][schema]["properties"][member]

    assert not {"anyOf", "type", "oneOf"} & set(described)


def test_links_are_named(document):
    task = document["components"]["schemas"]["TaskOut"]["properties"]["links"]

    assert task == {"$ref": "#/components/schemas/TaskLinks"}


def test_each_name_of_the_document_belongs_to_one_shape():
    """Two classes of one name would describe one of them as the other."""
    classes: dict[str, set[type]] = {}
    for operation in operations_of(api):
        for model in (*operation.models, *filter(None, operation.response_models.values())):
            for name, found in shapes_in(model):
                classes.setdefault(name, set()).add(found)

    assert {name: found for name, found in classes.items() if len(found) > 1} == {}
    assert {"AnswerIn", "SayIn", "ChangeOut"} <= set(classes)


def operations_of(api):
    for _, router in api._routers:
        for view in router.path_operations.values():
            yield from view.operations


def shapes_in(kind):
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind.__module__.startswith(("ledger.", "a2a.")):
            yield kind.__name__, kind
        for field in kind.model_fields.values():
            yield from shapes_in(field.annotation)
    for part in get_args(kind):
        yield from shapes_in(part)


@pytest.mark.django_db
def test_a_change_and_an_answer_are_as_the_document_says(document, as_helpdesk, helpdesk, alice):
    row = propose("refund", order="o1", amount="482.00")
    coordinator.revise(row.pk, {"amount": "48.20"}, digest=row.intent_digest, by=alice, via="web")
    coordinator.ask(row.pk, by=alice, via="web", text="Which lamp?")
    answer = {"text": "The one of March."}
    said = document["paths"]["/api/v1/transactions/{transaction_id}/answer"]["post"]
    body = said["requestBody"]["content"]["application/json"]["schema"]

    answered = as_helpdesk.post(f"/transactions/{row.pk}/answer", answer)

    assert answered.status_code == 200
    assert {"path": "arguments.amount", "from": "482.00", "to": "48.20"} in answered.json()[
        "changed"
    ]
    assert Draft202012Validator({**body, "components": document["components"]}).is_valid(answer)
    for name, sent in [
        ("TransactionOut", answered.json()),
        *(("ChangeOut", each) for each in answered.json()["changed"]),
    ]:
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        assert [error.message for error in Draft202012Validator(schema).iter_errors(sent)] == []
        described = document["components"]["schemas"][name]
        assert set(sent) <= set(described["properties"])


def carried(response, document, path, method):
    """The noteworthy headers of an answer that the document does not announce."""
    described = document["paths"][path][method.lower()]["responses"][str(response.status_code)]
    return {name for name in NOTEWORTHY if name in response.headers} - set(
        described.get("headers", {})
    )


@pytest.mark.django_db
def test_the_headers_of_real_answers_are_in_the_document(document, as_helpdesk, agent_client):
    path = "/api/v1/transactions"
    first = as_helpdesk.propose(key="k")
    said = {"tool": "pay", "arguments": first.json()}
    one = f"{path}/{{transaction_id}}"
    address = f"/transactions/{first.json()['transaction_id']}"
    read = as_helpdesk.get(address)
    answers = [
        (first, path, "POST"),
        (as_helpdesk.post("/transactions", said), path, "POST"),
        (read, one, "GET"),
        (as_helpdesk.get(address, **{"If-None-Match": read["ETag"]}), one, "GET"),
        *[(as_helpdesk.get(address), one, "GET") for _ in range(8)],
        (as_helpdesk.post(f"{address}/cancel"), f"{one}/cancel", "POST"),
    ]

    assert {answer.status_code for answer, *_ in answers} >= {201, 200, 304, 429, 400}
    for answer, where, method in answers:
        assert carried(answer, document, where, method) == set(), (where, answer.status_code)


def test_what_is_not_there_below_the_api_is_a_problem_too(client, db):
    for address in ("/api/v1/transactions/no-uuid", "/api/v1/nothing", "/api/v2/"):
        answer = client.get(address)
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")


def test_the_document_of_the_code_is_the_one_that_is_served(document):
    served = {o["operationId"] for p in document["paths"].values() for o in p.values()}
    code = api.get_openapi_schema(path_prefix="/api/v1/")

    assert served == {o["operationId"] for p in code["paths"].values() for o in p.values()}


@pytest.fixture
def token(helpdesk):
    return AgentToken.issue(helpdesk, scopes=list(Scope))[1]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_no_request_makes_it_fail_or_answer_what_is_not_in_the_document(case, token):
    if case.query:
        case.query.pop("wait", None)
    if isinstance(case.body, dict):
        case.body.pop("wait_s", None)
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}

    answer = case.call()

    assert answer.status_code < 500 or answer.json().get("code") in {"plan_failed", "tool_failed"}
    if answer.status_code >= 400:
        assert answer.headers["content-type"][0].startswith("application/problem+json")
    described = case.operation.definition.raw["responses"]
    # A path that fits no route and a method that fits no operation are nobody's answers.
    assert str(answer.status_code) in {*described, "404", "405"}, answer.json()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("ReceiptIn", {}),
        ("ReceiptIn", {"receipt": {"id": "r-1"}, "problem": "nothing-happened"}),
        ("TaskIn", {"skill": "research", "may_answer": [""]}),
        ("ArtifactIn", {"fencing_token": 1, "artifact_id": "a", "parts": [{}]}),
        ("ProposalIn", {"tool": "pay", "arguments": {}, "reason": "\x1b[2J"}),
        ("TaskIn", {"skill": "research", "may_answer": ["alice\u202e"]}),
        ("PolicyDocumentIn", {"name": "a  b", "version": "1", "text": "1. Yes."}),
    ],
)
def test_what_is_refused_for_its_form_does_not_fit_the_document(document, name, body):
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}

    assert not Draft202012Validator(schema).is_valid(body)


@pytest.mark.django_db
def test_a_filter_that_nothing_can_fit_answers_an_empty_page(as_helpdesk):
    as_helpdesk.propose()

    answer = as_helpdesk.get("/transactions?tool=pay%1B")

    assert (answer.status_code, answer.json()["items"]) == (200, [])
