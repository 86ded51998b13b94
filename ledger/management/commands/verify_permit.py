"""``manage.py verify_permit``: prints the claims of a permit, or why it does not count."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import httpx
from django.core.management.base import BaseCommand, CommandError

from ledger.tools import permits

JWKS_MOST = 1_000_000  # bytes


class Command(BaseCommand):
    help = (
        "Checks a permit offline and prints its claims. Whether it was redeemed, only redeem says."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", default="-", help="with the permit; - reads it here")
        parser.add_argument("--jwks", required=True, help="file or https address of the key set")
        parser.add_argument("--audience", required=True, help="the service that it must be for")
        parser.add_argument("--tenant", default="", help="whose tool it must be; empty: any")
        parser.add_argument(
            "--leeway", type=float, default=30, help="seconds that clocks may differ"
        )

    def handle(
        self,
        *args: Any,
        file: str,
        jwks: str,
        audience: str,
        tenant: str,
        leeway: float,
        **options: Any,
    ) -> None:
        token = (sys.stdin.read() if file == "-" else _text(Path(file))).strip()
        try:
            claims = permits.verified(token, _keys(jwks), audience=audience, leeway_s=leeway)
        except permits.PermitRefused as refusal:
            raise CommandError(f"This is no valid permit: {refusal}") from refusal
        if tenant not in {"", claims.get("tenant")}:
            raise CommandError("This is no valid permit: it is for a tool of another tenant.")
        self.stdout.write(json.dumps(claims, indent=2, ensure_ascii=False))


def _keys(source: str) -> list[dict[str, Any]]:
    is_address = source.startswith(("https://", "http://"))
    try:
        keys = json.loads(_fetched(source) if is_address else _text(Path(source)))["keys"]
    except (ValueError, KeyError, TypeError) as failure:
        raise CommandError(f"{source} is no JSON Web Key Set.") from failure
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise CommandError(f"{source} is no JSON Web Key Set.")
    return keys


def _fetched(address: str) -> str:
    try:
        answer = httpx.get(address, timeout=10)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as failure:
        raise CommandError(f"{address} cannot be read: {failure}") from failure
    return answer.text


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > JWKS_MOST:
            raise CommandError(f"{file} has more than {JWKS_MOST} bytes.")
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise CommandError(f"{file} cannot be read: {failure}") from failure
