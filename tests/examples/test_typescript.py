"""The client in TypeScript: its types are the product's, it behaves as the one in Python does."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess

import pytest

from approvals.api import api
from examples.typescript.openapi import part_of
from tests.peers import CLIENT, typescript_client


def test_the_types_are_those_of_the_document_that_is_served():
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/v1/"), default=str))
    digest = hashlib.sha256(part_of(document).encode()).hexdigest()

    assert digest in (CLIENT / "src" / "api.ts").read_text()[:300], "renew them: make types"


@pytest.mark.slow
@pytest.mark.timeout(300)  # npm installs the compiler
@pytest.mark.skipif(
    not shutil.which("npm") and not os.environ.get("CI"),
    reason="needs Node.js (Debian: apt-get install nodejs npm)",
)
def test_it_does_what_the_cases_of_all_clients_say():
    done = subprocess.run(
        ["npm", "test"], cwd=typescript_client(), capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout[-5000:]
    assert int(done.stdout.partition("# pass ")[2].split()[0]) > 70
