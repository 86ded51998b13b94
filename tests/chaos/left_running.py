"""A run of one test that never ends, to be killed (``test_killed_runs``)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests import services
from tests.processes import running


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True)
def test_the_product_runs_until_the_test_is_killed(acme):
    with running("web", "sandbox", "sweeper", "worker") as product:
        assert len(product.processes) == 4
        record = Path(os.environ["RECORD_OF_THE_RUN"])
        record.with_suffix(".new").write_text(f"{os.getpid()} {services.folder}")
        record.with_suffix(".new").rename(record)
        threading.Event().wait(600)
