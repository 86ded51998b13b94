"""Processes of these tests use the Redis of the run."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def redis_of_the_run(engines: None) -> None: ...
