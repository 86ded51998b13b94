"""The OpenAPI document: what Ninja finds in the code, and what it cannot know of HTTP."""

from __future__ import annotations

import re
from copy import copy
from functools import cache
from typing import Any

from django.conf import settings
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

Json = dict[str, Any]
PROBLEM = "application/problem+json"

TAGS = [
    {"name": "transactions", "description": "Propose what changes the world, and wait for people."},
    {"name": "permits", "description": "Act oneself after sign-off, once, with a signed permit."},
    {"name": "tools", "description": "What can be proposed, and what may be read without asking."},
    {"name": "supervisors", "description": "Decide by a written policy, or leave it to people."},
    {"name": "log", "description": "Proofs over the audit log, for whoever wants to check it."},
    {"name": "tasks", "description": "Give work to other agents: the plain dialect of A2A."},
    {"name": "workers", "description": "Do work that was given to one's own skills."},
]
HEADERS: Json = {
    "Location": {
        "description": "Where to read it from now on.",
        "schema": {"type": "string", "format": "uri"},
    },
    "ETag": {
        "description": "Changes when anything but the passing of time does; for `If-None-Match`.",
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds until it makes sense to ask again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "Idempotent-Replayed": {
        "description": "`true`: this Idempotency-Key was used before; nothing was done again.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "WWW-Authenticate": {
        "description": "How to authenticate.",
        "schema": {"type": "string"},
    },
    "Assent-Card-Version": {
        "description": "The agent card's version now, when the request named one.",
        "schema": {"type": "string"},
    },
}
# What each operation's answers carry, by operationId and status.
CARRIED: dict[str, dict[int, tuple[str, ...]]] = {
    "prepareTransaction": {
        201: ("Location", "Idempotent-Replayed"),
        200: ("Location", "Idempotent-Replayed"),
        409: ("Retry-After",),
    },
    "readTransaction": {200: ("ETag", "Retry-After"), 304: ("ETag", "Retry-After")},
    "cancelTransaction": {200: ("ETag",)},
    "postReceipt": {200: ("ETag",), 202: ("ETag",)},
    "redeemPermit": {200: ("Idempotent-Replayed",)},
    "approveTransaction": {200: ("ETag",)},
    "rejectTransaction": {200: ("ETag",)},
    "adviseOnTransaction": {200: ("ETag",)},
    "submitTask": {
        201: ("Location", "Retry-After", "Assent-Card-Version"),
        200: ("Location", "Retry-After", "Idempotent-Replayed", "Assent-Card-Version"),
    },
    "readTask": {200: ("Retry-After",)},
    "answerQuestion": {200: ("Retry-After",)},
    "cancelTask": {200: ("Retry-After",)},
}
CARRIED_BY_ALL = {401: ("WWW-Authenticate",), 429: ("Retry-After",)}
# Checked by hand, so that the refusal says what a key is for; Ninja takes them for optional.
REQUIRED = {("prepareTransaction", "Idempotency-Key")}


# What the names alone do not say.
PARAMETERS = {
    "Idempotency-Key": "One per request that you mean; the same one when you repeat it.",
    "traceparent": "W3C Trace Context; its trace id is kept.",
    "If-None-Match": "The `ETag` that you have: nothing new costs no body.",
    "limit": "How many at most.",
    "state": "Only those in this state.",
    "tool": "Only those of this tool.",
    "skill": "Only those of this skill.",
    "run_id": "Only those of this run of the agent.",
    "trace_id": "Only those of this trace.",
    "name": "Of the tool.",
    "transaction_id": "As the Token of Intent has it.",
    "jti": "Of the permit: its `jti`.",
    "task_id": "As the answer to the submission has it.",
    "question_id": "As the answer to asking has it.",
}


class DescribedAPI(NinjaAPI):
    """An API whose document says all that its answers do."""

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: Json | None = None
    ) -> OpenAPISchema:
        document = copy(self._described(path_prefix or self.get_root_path(path_params or {})))
        document["servers"] = [
            {"url": settings.PUBLIC_URL, "description": "Everything."},
            {
                "url": settings.LIVE_URL,
                "description": "The process for what stays open: /work and whatever has ?wait=.",
            },
        ]
        return document

    @cache  # noqa: B019 - an API lives as long as its process
    def _described(self, path_prefix: str) -> OpenAPISchema:
        """Made once: it takes most of a second, and is the same for everybody."""
        document = super().get_openapi_schema(path_prefix=path_prefix)
        document["components"]["headers"] = HEADERS
        for path in document["paths"].values():
            for operation in path.values():
                _describe(operation)
        return document


def info() -> Json:
    """The document's description of itself, apart from its paths."""
    return {
        "info": {
            "license": {"name": "MIT", "identifier": "MIT"},
            "contact": {"name": "The operators of this Assent", "url": settings.PUBLIC_URL},
        },
        "tags": TAGS,
    }


def _describe(operation: Json) -> None:
    name = operation["operationId"]
    operation["summary"] = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
    operation["responses"] = dict(sorted(operation["responses"].items()))
    for parameter in operation["parameters"]:
        if parameter["name"] in PARAMETERS:
            parameter.setdefault("description", PARAMETERS[parameter["name"]])
        if (name, parameter["name"]) in REQUIRED:
            parameter["required"] = True
            parameter["schema"].pop("default", None)
    for status, response in operation["responses"].items():
        carried = (*CARRIED.get(name, {}).get(status, ()), *CARRIED_BY_ALL.get(status, ()))
        if carried:
            response["headers"] = {
                header: {"$ref": f"#/components/headers/{header}"} for header in carried
            }
        if status >= 400:
            response["content"] = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
