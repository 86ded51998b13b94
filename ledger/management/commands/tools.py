"""``manage.py tools``: registers tools that run elsewhere, from a file that can be kept in git."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.transaction import atomic

from ledger.errors import LedgerError
from ledger.events import command_principal
from ledger.foundation.crypto import standard_webhooks
from ledger.models import Tenant
from ledger.principals import Surface
from ledger.tools import credentials, manifests, registrations
from ledger.tools.credentials import CredentialRefused
from ledger.tools.manifests import Manifest, ManifestRefused, texts

FILE_MOST = 1_000_000  # bytes


class Command(BaseCommand):
    help = "Registers tools that run elsewhere; agents of the tenant may propose them at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        apply = verbs.add_parser("apply", help="make the tools of a file the current ones")
        apply.add_argument("file", type=Path)
        apply.add_argument("--dry-run", action="store_true", help="only show what would change")
        withdraw = verbs.add_parser("withdraw", help="let agents propose a tool no more")
        withdraw.add_argument("name")
        withdraw.add_argument("--tenant", required=True)
        _add_credential(verbs)

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        try:
            match verb:
                case "withdraw":
                    self._withdraw(options["tenant"], options["name"])
                case "credential":
                    self._credential(options["name"], _tenant(options["tenant"]), options)
                case _:
                    self._apply(options["file"], options)
        except (LedgerError, registrations.Refused, CredentialRefused) as refusal:
            raise CommandError(f"{refusal} Nothing was changed.") from refusal

    def _withdraw(self, tenant: str, name: str) -> None:
        by, via = command_principal(), Surface.COMMAND
        registrations.withdraw(_tenant(tenant), name, by=by, via=via)
        self.stdout.write(f"{name} was withdrawn. What was prepared with it goes on.")

    def _credential(self, name: str, tenant: Tenant, options: dict[str, Any]) -> None:
        by: dict[str, Any] = {"by": command_principal(), "via": Surface.COMMAND}
        if options["remove"]:
            credentials.remove(tenant, name, **by)
            self.stdout.write(f"{name} was removed. Tools that name it are not called any more.")
            return
        hosts = options["host"] or []
        if options["signing_secret"]:
            self._signing_secret(name, tenant, hosts, options, by)
            return
        secret = _secret(options["secret_file"])
        if options["header"]:
            header = options["header"]
            credentials.set_header(tenant, name, hosts=hosts, header=header, value=secret, **by)
        else:
            credentials.set_client_certificate(tenant, name, hosts=hosts, pem=secret, **by)
        self.stdout.write(f"{name} is kept, encrypted, for {', '.join(hosts)}.")

    def _signing_secret(
        self, name: str, tenant: Tenant, hosts: list[str], options: dict[str, Any], by: Any
    ) -> None:
        file = options["secret_file"]
        secret = standard_webhooks.new_secret() if file is None else _secret(file)
        both_until = credentials.set_signing_secret(
            tenant, name, hosts=hosts, secret=secret, at_once=options["at_once"], **by
        )
        self.stdout.write(f"{name} signs, as of now, for {', '.join(hosts)}.")
        if both_until:
            self.stdout.write(
                f"The one before signs beside it until {both_until:%Y-%m-%d %H:%M} UTC."
            )
        if file is None:
            self.stdout.write(f"For the owner of the service, and not shown again: {secret}")

    def _apply(self, file: Path, options: dict[str, Any]) -> None:
        """All of them or none: a tool that is refused takes back those before it."""
        tenant, manifests = _read(file)
        for manifest in manifests:
            registrations.check(tenant, manifest)
        with atomic():
            for manifest in manifests:
                self._apply_one(tenant, manifest, options)
        if options["dry_run"]:
            self.stdout.write("Nothing was changed: this was a dry run.")

    def _apply_one(self, tenant: Tenant, manifest: Manifest, options: dict[str, Any]) -> None:
        old = registrations.current(tenant, manifest.name)
        changed = registrations.differences(old, manifest)
        if not options["dry_run"]:
            by, via = command_principal(), Surface.COMMAND
            changed = registrations.register(tenant, manifest, by=by, via=via)
        what = "unchanged" if not changed else "changed" if old is not None else "new"
        self.stdout.write(f"{manifest.name}: {what} ({manifest.sha256[:12]})")
        if old is not None:
            for name, (before, after) in changed.items():
                self.stdout.write(f"  {name}: {_short(before)} → {_short(after)}")
            return
        given = {f"contract.{name}" for name in manifest.contract.model_fields_set}
        given |= changed.keys() if options["verbosity"] > 1 else manifest.model_fields_set
        shown = [name for name in changed if name in given]
        for name in shown:
            self.stdout.write(f"  {name}: {_short(changed[name][1])}")
        if len(shown) < len(changed):
            left = len(changed) - len(shown)
            self.stdout.write(f"  {left} others have their defaults (-v 2 shows them).")


def _add_credential(verbs: Any) -> None:
    credential = verbs.add_parser(
        "credential", help="keep what a service wants to see; the secret is read from stdin"
    )
    credential.add_argument("name")
    credential.add_argument("--tenant", required=True)
    credential.add_argument("--host", action="append", help="host or host:port; may be repeated")
    credential.add_argument("--secret-file", type=Path, help="read the secret from here instead")
    credential.add_argument(
        "--at-once", action="store_true", help="the signing secret before it signs no more"
    )
    kind = credential.add_mutually_exclusive_group(required=True)
    kind.add_argument("--header", help="the secret is the value of this header")
    kind.add_argument(
        "--client-certificate", action="store_true", help="the secret is PEM: certificate and key"
    )
    kind.add_argument(
        "--signing-secret",
        action="store_true",
        help="make a secret of Standard Webhooks and show it once, or read it from --secret-file",
    )
    kind.add_argument("--remove", action="store_true", help="forget it")


def _secret(file: Path | None) -> str:
    """As it was given, without the line break at its end."""
    try:
        text = sys.stdin.read(FILE_MOST) if file is None else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise CommandError(f"The secret cannot be read: {failure.__class__.__name__}.") from None
    return text.rstrip("\r\n")


def _read(file: Path) -> tuple[Tenant, list[Manifest]]:
    try:
        if file.stat().st_size > FILE_MOST:
            raise CommandError(f"{file} has more than {FILE_MOST} bytes.")
        content = texts.parse(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ManifestRefused) as failure:
        raise CommandError(f"{file} cannot be read: {failure}") from failure
    if not isinstance(content, dict) or set(content) != {"tenant", "tools"}:
        raise CommandError(f"{file} is an object with the members tenant and tools.")
    if not isinstance(content["tools"], list):
        raise CommandError("tools is a list of manifests.")
    manifests = [_manifest(member) for member in content["tools"]]
    names = [manifest.name for manifest in manifests]
    if twice := {name for name in names if names.count(name) > 1}:
        raise CommandError(f"{', '.join(sorted(twice))} stands in the file twice.")
    return _tenant(str(content["tenant"])), manifests


def _manifest(member: Any) -> Manifest:
    try:
        return manifests.read(member)
    except ManifestRefused as refusal:
        name = str(member.get("name", "?"))[:100] if isinstance(member, dict) else "?"
        raise CommandError(f"{name}: {refusal}. Nothing was changed.") from refusal


def _tenant(slug: str) -> Tenant:
    tenant = Tenant.objects.filter(slug=slug).first()
    if tenant is None:
        raise CommandError(f"There is no tenant {slug!r:.80}.")
    return tenant


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"
