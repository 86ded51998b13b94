"""The client in TypeScript: its types are the product's, it behaves as the one in Python does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from django.conf import settings

from approvals.api import api
from examples.typescript.openapi import part_of

CLIENT = Path(settings.BASE_DIR) / "examples" / "typescript"


def test_the_types_are_those_of_the_document_that_is_served():
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/v1/"), default=str))
    digest = hashlib.sha256(part_of(document).encode()).hexdigest()

    assert digest in (CLIENT / "src" / "api.ts").read_text()[:300], "renew them: make types"
