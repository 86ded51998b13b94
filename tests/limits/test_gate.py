"""The front of a real web process: floods, large bodies and half requests, from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from tests.limits.requests import (
    address_of,
    answer_of,
    as_agent,
    http,
    is_silent,
    opens,
    propose,
    send,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_an_agent_that_asks_too_often_is_refused_and_another_is_not(limited, tokens):
    busy, quiet = tokens
    where = f"{address_of(limited)}/api/v1/tools"
    answers = [http.get(where, headers=as_agent(busy)) for _ in range(60)]

    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert int(refused.headers["Retry-After"]) >= 1
    assert (refused.json()["code"], refused.json()["limit"]) == ("limit_reached", "requests")
    assert propose(limited, quiet).status_code == 201


def test_an_address_that_floods_without_a_token_is_refused_and_agents_from_it_are_not(
    limited, tokens
):
    assert propose(limited, tokens[0]).status_code == 201  # so that the token is known

    statuses = [http.get(f"{address_of(limited)}/sign-in/").status_code for _ in range(30)]

    assert 429 in statuses
    assert propose(limited, tokens[0]).status_code == 201


@pytest.mark.parametrize(
    "path", ["/sign-in/", "/api/v1/transactions", "/api/v1/work/claim", "/a2a/v1", "/slack/events"]
)
def test_a_large_body_is_refused_by_its_announced_length_before_any_of_it_is_read(
    live, tokens, path
):
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tokens[0]}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"
    )

    answer = answer_of(send(live, head.encode()))

    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b'"code": "too_large"' in answer


@pytest.mark.parametrize("path", ["/sign-in/", "/api/v1/transactions", "/a2a/v1"])
def test_a_large_body_of_unknown_length_is_refused_while_it_comes(live, tokens, path):
    def without_end() -> Iterator[bytes]:
        for _ in range(200):
            yield b"x" * 65_536

    try:
        answer = http.post(
            address_of(live) + path, content=without_end(), headers=as_agent(tokens[0])
        )
        assert answer.status_code == 413
    except httpx.TransportError:
        pass  # refused, and closed while the client still sent
    assert propose(live, tokens[1]).status_code == 201


HALF_HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: "
HALF_BODY = (
    b"POST /api/v1/transactions HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
)


@pytest.mark.parametrize("half", [HALF_HEAD, HALF_BODY, b""], ids=["head", "body", "nothing"])
def test_half_requests_stop_neither_pages_nor_agents(live, tokens, as_manager, half):
    opens(live, as_manager)  # compiles the templates
    with ExitStack() as stack:
        halves = [stack.enter_context(send(live, half)) for _ in range(300)]

        opens(live, as_manager)
        assert propose(live, tokens[0]).status_code == 201
        assert all(map(is_silent, halves)), "answered before any of them was given up"


# Without threads of their own for hashing, a page waits about as long as those who hash.
FRACTION = 4


def timed(post: Callable[[], httpx.Response]) -> tuple[int, float]:
    """The status, and the seconds until it came."""
    began = time.monotonic()
    return post().status_code, time.monotonic() - began


def test_a_storm_of_sign_ins_stops_neither_pages_nor_agents(live, tokens, as_manager):
    opens(live, as_manager)  # compiles the templates
    page = http.get(f"{address_of(live)}/sign-in/")
    form = {"password": "wrong", "csrfmiddlewaretoken": page.cookies["csrftoken"]}

    def sign_in(number: int) -> tuple[int, float]:
        data = {**form, "username": f"nobody{number}"}
        return timed(lambda: http.post(f"{address_of(live)}/sign-in/", data=data))

    with ThreadPoolExecutor(16) as pool:
        storm = [pool.submit(sign_in, number) for number in range(16)]
        took = [opens(live, as_manager) for _ in range(5)]
        prepared = [propose(live, tokens[0]).status_code for _ in range(5)]
        hashed = [each.result() for each in storm]

    assert max(took) < max(seconds for _, seconds in hashed) / FRACTION
    assert prepared == [201] * 5
    assert {status for status, _ in hashed} <= {200, 429, 503}


def test_a_storm_of_password_changes_stops_no_page(live, as_manager):
    """Each hashes like a sign-in, and waits its turn with them."""
    opens(live, as_manager)  # compiles the templates
    where = f"{address_of(live)}/password/"
    page = http.get(where, headers=as_manager)
    token = page.cookies["csrftoken"]
    cookies = {"Cookie": f"{as_manager['Cookie']}; csrftoken={token}"}
    form = {"old_password": "wrong", "new_password1": "x", "new_password2": "x"}

    def change(_: int) -> tuple[int, float]:
        data = {**form, "csrfmiddlewaretoken": token}
        return timed(lambda: http.post(where, data=data, headers=cookies))

    with ThreadPoolExecutor(16) as pool:
        storm = [pool.submit(change, number) for number in range(16)]
        took = [opens(live, as_manager) for _ in range(5)]
        hashed = [each.result() for each in storm]

    assert max(took) < max(seconds for _, seconds in hashed) / FRACTION
    # Some are too many for one person.
    assert {status for status, _ in hashed} <= {422, 429, 503}
