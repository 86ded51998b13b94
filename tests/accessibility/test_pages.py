"""axe-core finds nothing on any page: light and dark, on a desktop and a phone."""

from __future__ import annotations

import pytest

from tests.accessibility.axe import violations
from tests.authorization.operations import all_operations

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
# Each page is read by the first of them who may.
READERS = {
    "desk": ("anonymous", "approver", "operator", "admin"),
    "admin": ("admin", "superuser"),
}
# Pages of a package, for superusers; what machines read; what is downloaded.
NOT_OURS = ("/admin/rq/", "/admin/jsi18n", "/api/v1/openapi", "/.well-known/", "/a2a/", "/log/")


def pages_of(part: str) -> list[str]:
    return [
        operation
        for operation in all_operations()
        if operation.startswith("GET /")
        and operation.startswith("GET /admin/") == (part == "admin")
        and not any(place in operation for place in NOT_OURS)
        and ("/api/" not in operation or operation.endswith("/docs"))
    ]


@pytest.mark.parametrize("part", ["desk", "admin"])
def test_axe_finds_nothing(part, addresses, product, page_of):
    found, seen = [], 0
    for operation in pages_of(part):
        address = product.url + addresses[operation]
        page = next((p for p in map(page_of, READERS[part]) if is_page(p, address)), None)
        if page is None:
            continue
        page.goto(address)
        seen += 1
        found += [f"{operation}: {line}" for line in violations(page)]

    assert seen > {"desk": 15, "admin": 20}[part]
    assert not found, "\n".join(found)


def is_page(page, address):
    """A whole page; neither a part of one nor a way to another."""
    answer = page.request.get(address, max_redirects=0)
    return answer.status == 200 and "<!doctype html>" in answer.text()[:500].lower()
