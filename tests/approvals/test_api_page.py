"""The page about the REST interface: complete, true, and in words."""

from __future__ import annotations

import jsonschema_rs
import pytest

from approvals.api import api, field_of
from approvals.http.field_descriptions import words
from approvals.http.reference.api_page import JSON, operations

DOCUMENT = api.get_openapi_schema(path_prefix="/api/v1/")
OPERATIONS = list(operations(DOCUMENT))


def fits(value, schema):
    """Whether the value is of the schema; references lead into the document."""
    whole = {**schema, "components": DOCUMENT["components"]}
    return [error.message for error in jsonschema_rs.Draft202012Validator(whole).iter_errors(value)]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_operation_has_a_sentence_and_examples_that_are_valid(operation):
    described = DOCUMENT["paths"][operation.path][operation.method.lower()]
    body = described.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema")
    answer = next(
        (
            response["content"][JSON]["schema"]
            for status, response in described["responses"].items()
            if str(status) == operation.status[:3] and JSON in response.get("content", {})
        ),
        None,
    )

    assert operation.sentence.endswith((".", ":"))
    assert operation.curl.startswith("curl ")
    assert "{" not in operation.curl.partition("\n")[0]
    assert (body is None) == (operation.example is None)
    assert body is None or fits(operation.example, body) == []
    assert (answer is None) == (operation.answer == "")
    assert answer is None or fits(operation.example_answer, answer) == []
    assert all(field.asks for field in operation.body)


def test_the_page_is_readable_without_signing_in_and_leads_back(client, db):
    page = client.get("/api/v1/docs", headers={"Accept-Language": "de"})
    text = page.content.decode()

    assert page.status_code == 200
    assert '<html lang="en"' in text
    assert all(f'id="{operation.name}"' in text for operation in OPERATIONS)
    assert 'href="/"' in text
    assert "/api/v1/openapi.json" in text
    assert "at most 2,000 characters" in text


def test_a_schema_is_said_in_words():
    schemas = DOCUMENT["components"]["schemas"]

    assert words({"type": "string", "maxLength": 2000}, {}) == "text, at most 2,000 characters"
    assert words({"type": "integer", "minimum": 1, "maximum": 200}, {}) == (
        "a whole number, 1 to 200"
    )
    assert words(schemas["ProposalIn"]["properties"]["ttl_s"], schemas) == (
        "a whole number, more than 0 and at most 31,536,000 or null"
    )
    assert words({"enum": ["a", "b"]}, {}) == "one of a, b"
    assert words({"type": "string", "minLength": 64, "maxLength": 64}, {}) == (
        "text, exactly 64 characters"
    )


def test_the_first_error_of_an_agents_author_says_what_is_wrong(as_helpdesk):
    answer = as_helpdesk.propose(reason="a" * 2001)

    assert answer.status_code == 422
    assert answer.json()["detail"] == "reason: at most 2,000 characters."
    assert [error["field"] for error in answer.json()["errors"]] == ["reason"]


def test_an_error_names_a_field_as_the_request_has_it(as_helpdesk):
    whole = as_helpdesk.post("/transactions", [1], key="k")
    query = as_helpdesk.get("/transactions?limit=9999")

    def fields(answer):
        assert answer.status_code == 422, answer.content
        return [error["field"] for error in answer.json()["errors"]]

    assert fields(whole) == ["body"]
    assert fields(query) == ["limit"]
    assert field_of({"loc": ("body", "body", "receipt", "fields", 0)}) == "receipt.fields.0"


def test_an_error_names_three_fields_and_counts_the_others(as_helpdesk):
    answer = as_helpdesk.post(
        "/transactions", {"reson": "a", "argument": 1, "ttl": 3}, idempotency_key="k"
    )

    assert answer.json()["detail"].endswith("2 more in errors.")
    assert "tool: required, and not there." in answer.json()["detail"]
