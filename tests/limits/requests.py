"""Requests to a real web process, from outside."""

from __future__ import annotations

import socket
import time
from uuid import uuid4

import httpx

from tests.processes import Product

http = httpx.Client(timeout=60)  # one for all: each takes a while to make


def address_of(product: Product) -> str:
    return f"http://127.0.0.1:{product.web_port}"


def as_agent(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Idempotency-Key": uuid4().hex}


def propose(product: Product, token: str) -> httpx.Response:
    arguments = {"reference": uuid4().hex, "amount": "48.20"}
    return http.post(
        f"{address_of(product)}/api/v1/transactions",
        json={"tool": "pay", "arguments": arguments},
        headers=as_agent(token),
    )


def opens(product: Product, as_manager: dict[str, str]) -> float:
    """Open a manager's page; the seconds until it is there, to be compared with others."""
    began = time.monotonic()
    page = http.get(f"{address_of(product)}/", headers=as_manager)
    assert page.status_code == 200
    assert "Inbox" in page.text
    return time.monotonic() - began


def send(product: Product, text: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", product.web_port), timeout=10)
    connection.sendall(text)
    return connection


def is_silent(connection: socket.socket) -> bool:
    """Whether the product keeps it open, and has answered nothing yet."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    return False


def answer_of(connection: socket.socket) -> bytes:
    with connection:
        return connection.recv(65_536)
