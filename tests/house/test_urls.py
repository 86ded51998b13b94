"""Every address of the product is in the table of who may call what, and none opens by accident."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, path, reverse
from django.urls.converters import IntConverter, UUIDConverter

from tests.authorization import table
from tests.authorization.operations import plain_address

# Pages that are meant for people without a session; metrics have a token of their own.
OPEN_TO_ALL = {
    "sign-in",
    "sign-in-code",
    "sign-in-passkey",
    "sign-in-passkey-options",
    "sign-out",
    "forgotten",
    "company",
    "company-callback",
    "join",
    "join-passkey",
    "join-passkey-options",
    "first-account",
    "metrics",
    "manifest",
    "service-worker",
    "offline",
    "unsubscribe",
}
ID = UUID("01a1fb78-53c5-70b5-af29-92d7960ba506")


def walk(
    resolver: URLResolver, prefix: str = "", names: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    """The qualified name (or the view's) and the address of each URL below the resolver."""
    for pattern in resolver.url_patterns:
        address = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from walk(pattern, address, (*names, pattern.namespace or ""))
        elif isinstance(pattern, URLPattern):
            name = pattern.name or pattern.lookup_str
            yield ":".join(filter(None, (*names, name))), address


def missing_in(rows: set[str], resolver: URLResolver) -> set[str]:
    """The URLs that have no row."""
    listed = {row.partition(" /")[2] for row in rows}
    return {
        f"{name} ({address})"
        for name, address in walk(resolver)
        if plain_address(address) not in listed and not is_alias(address)
    }


def is_alias(address: str) -> bool:
    """The catch-all of each part of the admin, and the short form of a page about one thing."""
    return address.endswith("/<path:object_id>/") or "(?P<" in address


def test_every_url_is_in_the_table_of_who_may_call_what():
    assert missing_in(set(table.read()), get_resolver()) == set()


def test_every_row_of_the_table_is_a_url():
    addresses = {plain_address(address) for _, address in walk(get_resolver())}
    rows = [row for row in table.read() if not row.startswith("A2A ")]

    assert [row for row in rows if row.partition(" /")[2] not in addresses] == []


def test_a_url_without_a_row_is_seen():
    class Urls:
        urlpatterns = (path("loose/<uuid:pk>/", lambda request: None, name="loose"),)

    from django.urls.resolvers import RegexPattern

    found = missing_in(set(table.read()), URLResolver(RegexPattern(r"^/"), Urls))

    assert found == {"loose (loose/<uuid:pk>/)"}


DESK = get_resolver("approvals.web.urls")


@pytest.mark.parametrize("name", sorted(n for n in DESK.reverse_dict if isinstance(n, str)))
def test_no_address_of_the_desk_opens_without_signing_in(client, db, name):
    address = reverse(f"desk:{name}", kwargs=samples(name))
    answers = [client.get(address), client.post(address)]

    if name in OPEN_TO_ALL:
        assert not any("/sign-in/?next=" in answer.get("Location", "") for answer in answers)
        return
    for answer in answers:
        assert answer.status_code in {302, 405}, address
        assert answer.status_code == 405 or "/sign-in/" in answer["Location"]
    assert {answer.status_code for answer in answers} != {405}


def samples(name: str) -> dict[str, Any]:
    """A value for each variable of the address, by its converter."""
    ((_, _, _, converters),) = DESK.reverse_dict.getlist(name)
    return {variable: sample(converter) for variable, converter in converters.items()}


def sample(converter: Any) -> Any:
    if isinstance(converter, UUIDConverter):
        return ID
    if isinstance(converter, IntConverter):
        return 1
    return "csv"
