"""The source is read once for all tests of the house."""

from __future__ import annotations

import pytest

from tests.house.source import modules_of_tests, product


@pytest.fixture(autouse=True, scope="session")
def _parsed_source() -> None:
    product()
    modules_of_tests()
