"""``RECORD_RELEASE=0.1.0 pytest -n 0 tests/compatibility/test_record.py`` keeps a release.

Its names and an export, that is. It is skipped otherwise; before the tag it may be recorded anew.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from django.core.management import call_command

from ledger.proof.log import checkpoints
from tests.compatibility.names import offered, read, written
from tests.ledger.test_tampering import ledger, untouched_ledger

__all__ = ["ledger", "untouched_ledger"]

FOLDER = Path(__file__).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("RECORD_RELEASE" not in os.environ, reason="records a release"),
]


def test_names_and_an_export_are_recorded(ledger, tmp_path):
    version = os.environ["RECORD_RELEASE"]
    names = FOLDER / f"names-{version}.txt"
    names.write_text(written(offered()) + "\n")
    checkpoints.make()
    call_command("export_ledger", str(tmp_path / "ledger.jsonl"))
    export = gzip.compress((tmp_path / "ledger.jsonl").read_bytes(), mtime=0)
    (FOLDER / f"export-{version}.jsonl.gz").write_bytes(export)

    assert read(names) == offered()
