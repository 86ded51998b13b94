"""The page about the REST interface: each operation in a sentence, its fields, an example."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

from approvals.http.field_descriptions import Field, Json, fields_of, words
from approvals.http.reference import api_examples

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as the page shows it."""

    name: str
    tag: str
    title: str
    method: str
    path: str
    sentence: str
    more: tuple[str, ...]
    needs_token: bool
    parameters: tuple[tuple[str, Field], ...]  # each with its place: path, query, header
    body: tuple[Field, ...]
    curl: str
    status: str
    answer: str
    answer_fields: tuple[Field, ...]
    refusals: tuple[str, ...]
    example: Any  # the body of the request, or None
    example_answer: Any


class ApiPage(DocsBase):
    """Renders ``/api/v1/docs`` from the OpenAPI document."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        document = api.get_openapi_schema(path_params=kwargs)
        all_of_them = list(operations(document))
        parts = [
            (tag, [operation for operation in all_of_them if operation.tag == tag["name"]])
            for tag in document["tags"]
        ]
        return render(
            request,
            "api_docs.html",
            {"parts": parts, "document": self.get_openapi_url(api, kwargs), "api": api},
        )


def operations(document: Json) -> Iterator[Operation]:
    """Every operation of the document, in its order."""
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield _operation(method.upper(), path, described, schemas)


def _operation(method: str, path: str, described: Json, schemas: Json) -> Operation:
    sentence, *more = described["description"].split("\n\n")
    body = described.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema")
    status, answer = _answer(described["responses"])
    example = None if body is None else api_examples.request_of(body, schemas)
    example_answer = None if answer is None else api_examples.answer_of(answer, schemas)
    return Operation(
        name=described["operationId"],
        tag=described["tags"][0],
        title=described["summary"],
        method=method,
        path=path,
        sentence=sentence,
        more=tuple(more),
        needs_token="security" in described,
        parameters=tuple(_parameters(described["parameters"], schemas)),
        body=tuple(fields_of(body, schemas)) if body else (),
        curl=_curl(method, path, described, example),
        status=f"{status} {HTTPStatus(int(status)).phrase}",
        answer="" if answer is None else json.dumps(example_answer, indent=2, ensure_ascii=False),
        answer_fields=tuple(fields_of(answer, schemas)) if answer else (),
        refusals=tuple(
            f"{code} {HTTPStatus(int(code)).phrase}"
            for code in described["responses"]
            if int(code) >= 400
        ),
        example=example,
        example_answer=example_answer,
    )


def _answer(responses: Json) -> tuple[str, Json | None]:
    """Status and schema of the answer to a request that succeeds for the first time."""
    fine = [str(status) for status in responses if int(status) < 300]
    status = "201" if "201" in fine else fine[0]
    content = {str(code): response for code, response in responses.items()}[status]
    return status, content.get("content", {}).get(JSON, {}).get("schema")


def _parameters(parameters: list[Json], schemas: Json) -> Iterator[tuple[str, Field]]:
    for parameter in parameters:
        yield (
            parameter["in"],
            Field(
                parameter["name"],
                words(parameter["schema"], schemas),
                parameter["required"],
                parameter["description"],
            ),
        )


def _curl(method: str, path: str, described: Json, body: Any) -> str:
    """The request as one types it; the token is in a variable of the shell."""
    filled = re.sub(r"\{(\w+)\}", lambda name: str(api_examples.IN_PATHS[name[1]]), path)
    address = settings.PUBLIC_URL + filled + api_examples.QUERIES.get(described["operationId"], "")
    lines = [f"curl {f'-X {method} ' if method != 'GET' else ''}{shlex.quote(address)}"]
    if "security" in described:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    if any(parameter["name"] == "Idempotency-Key" for parameter in described["parameters"]):
        lines.append("-H 'Idempotency-Key: refund-1042'")
    if body is not None:
        lines += [f"-H 'Content-Type: {JSON}'", f"-d {shlex.quote(_readable(body))}"]
    return " \\\n  ".join(lines)


def _readable(body: Any) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False)
