"""An export of a release is verified by every later second verifier (docs/compatibility.md).

``test_record.py`` makes it, of the ledger of ``tests/ledger/test_tampering.py``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from examples import verify

EXPORTS = sorted(Path(__file__).parent.glob("export-*.jsonl.gz"))


@pytest.mark.parametrize("path", EXPORTS, ids=[path.name for path in EXPORTS])
def test_an_export_of_a_release_is_whole_and_a_forged_one_is_not(path):
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    keys = [bytes.fromhex(key) for key in json.loads(lines[0])["public_keys"]]

    assert list(verify.verify(lines, keys)) == []
    forged = [line.replace('"amount":"48.200000"', '"amount":"0.010000"') for line in lines]
    assert any("is not what was prepared" in fault for fault in verify.verify(forged, keys))
