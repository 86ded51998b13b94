"""``manage.py check_tool``: checks a tool's service against the protocol, from outside."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from approvals.conformance.probe import Probe, Sample, Signer, WithKey, WithSecret
from approvals.conformance.run import CHECKS, Finding, findings
from approvals.conformance.service import NotStarted, StartedService, listens, published
from ledger.contracts import json_schemas
from ledger.foundation.crypto import signing_keys, standard_webhooks
from ledger.foundation.crypto.standard_webhooks import SecretRefused
from ledger.tools import credentials, manifests
from ledger.tools.credentials import CredentialRefused
from ledger.tools.manifests import HttpManifest, ManifestRefused, texts

ANYWHERE = "https://tool.example"
ROUTES = ("plan", "rollback", "find_receipt")


class Command(BaseCommand):
    help = "Checks a service of yours, which carries out the sample many times: not in production."
    requires_system_checks: list[str] = []  # it needs no database

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", help="the address of the tool, as in its manifest")
        parser.add_argument("--manifest", type=Path, help="the file of `tools apply`")
        parser.add_argument("--tool", default="", help="which tool of the file; else the first")
        parser.add_argument("--tenant", default="", help="whose sample it is; else the file's")
        parser.add_argument(
            "--arguments", help="of a sample operation, as JSON; else examples of the schema"
        )
        parser.add_argument("--other-arguments", help="that differ; else one digit is changed")
        parser.add_argument("--start", help="the command that starts the service, to kill it")
        parser.add_argument(
            "--keys-port", type=int, help="sign with a key of its own, published at this port"
        )
        parser.add_argument(
            "--secret-file", type=Path, help="sign webhooks with the secret in it (whsec_…)"
        )
        parser.add_argument(
            "--header", default="", help="that the service asks for; its value comes by the input"
        )
        parser.add_argument("--timeout", type=float, help="seconds; else those of the manifest")

    def handle(self, *args: Any, **options: Any) -> None:
        manifest = _manifest(options["manifest"], options["tool"])
        sample = _sample(manifest, options)
        timeout_s = options["timeout"] or (manifest.contract.timeout_s if manifest else 30.0)
        shown = _shown(options["header"])
        with self._signer(options["secret_file"], options["keys_port"]) as signer:
            address = options["url"].rstrip("/")
            probe = Probe(address, sample, signer, timeout_s, shown=shown, manifest=manifest)
            try:
                failures = self._run(probe, options["start"])
            except NotStarted as failure:
                raise CommandError(str(failure)) from failure
        if failures:
            raise CommandError(f"{failures} of {len(CHECKS)} checks failed.")
        self.stdout.write("The service keeps the protocol.")

    @contextmanager
    def _signer(self, file: Path | None, port: int | None) -> Iterator[Signer]:
        """With the owner's secret where that is named, else with a key."""
        if file is not None:
            yield WithSecret(_signing_secret(file))
            return
        with self._key(port) as key:
            yield WithKey(key)

    @contextmanager
    def _key(self, port: int | None) -> Iterator[Ed25519PrivateKey]:
        """That of the installation, or one for this run."""
        key = signing_keys.signing_key(settings.TOOL_KEYS)
        if port is None and key is not None:
            yield key
            return
        if port is None:
            raise CommandError("ASSENT_TOOL_KEY is not set: use a key of its own by --keys-port.")
        key = Ed25519PrivateKey.generate()
        with published(key, port) as address:
            self.stdout.write(f"The public key is at {address}/.well-known/jwks.json")
            yield key

    def _run(self, probe: Probe, command: str | None) -> int:
        """Number of checks that failed."""
        if command is None:
            if not listens(probe.address):
                raise NotStarted(f"Nothing answers at {probe.address}: start it, or give --start.")
            return self._tell(probe)
        service = StartedService(command, probe.address)
        probe.owner = service
        try:
            service.start()
            return self._tell(probe)
        finally:
            service.kill()

    def _tell(self, probe: Probe) -> int:
        failures = 0
        for finding in findings(probe):
            failures += finding.is_failure
            self.stdout.write(_line(finding))
        return failures


def _shown(header: str) -> dict[str, str]:
    """The header with the value that is on the input: arguments can be seen by others."""
    if not header:
        return {}
    value = sys.stdin.read().strip()
    try:
        credentials.check_header(header, value)
    except CredentialRefused as refusal:
        raise CommandError(str(refusal)) from None
    return {header: value}


def _signing_secret(file: Path) -> str:
    try:
        secret = file.read_text("utf-8").strip()
        standard_webhooks.check_secret(secret)
    except (OSError, UnicodeDecodeError) as failure:
        raise CommandError(f"{file} cannot be read: {type(failure).__name__}.") from None
    except SecretRefused as refusal:
        raise CommandError(f"{file}: {refusal}") from None
    return secret


def _line(finding: Finding) -> str:
    if finding.skipped:
        return f"skip  {finding.name}: {finding.skipped}"
    if not finding.is_failure:
        return f"ok    {finding.name}: {finding.expected}"
    came = "".join(letter if letter.isprintable() else " " for letter in finding.came)
    return (
        f"FAIL  {finding.name}\n      expected: {finding.expected}\n"
        f"      came:     {came}\n      why:      {finding.why}"
    )


def _manifest(file: Path | None, name: str) -> HttpManifest | None:
    if file is None:
        return None
    try:
        members = texts.parse(file.read_text("utf-8"))["tools"]
        members = [each for each in members if each.get("kind", "http") == "http"]
        # The address is the argument: that of the file may be one that only its operator allows.
        all_manifests = [manifests.read({**each, "address": ANYWHERE}) for each in members]
    except (
        OSError,
        UnicodeDecodeError,
        ManifestRefused,
        KeyError,
        TypeError,
        AttributeError,
    ) as failure:
        raise CommandError(f"{file} cannot be read: {failure}") from failure
    for manifest in all_manifests:
        if isinstance(manifest, HttpManifest) and name in {"", manifest.name}:
            return manifest
    raise CommandError(f"{file} has no such tool over HTTP.")


def _sample(manifest: HttpManifest | None, options: Mapping[str, Any]) -> Sample:
    text = options["arguments"]
    arguments = _object(text) if text is not None else _examples(manifest)
    other = options["other_arguments"]
    others = _object(other) if other is not None else _with_another_digit(arguments)
    if others == arguments:
        raise CommandError("The arguments have no digit to change: give --other-arguments.")
    name = manifest.name if manifest is not None else options["tool"]
    routes = manifest.routes if manifest is not None else ROUTES
    tenant = options["tenant"] or _tenant(options["manifest"])
    return Sample(name or "check", arguments, others, frozenset(routes), tenant)


def _tenant(file: Path | None) -> str:
    """Of the file, which can be read."""
    tenant = texts.parse(file.read_text("utf-8")).get("tenant") if file is not None else None
    return str(tenant or "check")


def _examples(manifest: HttpManifest | None) -> dict[str, Any]:
    """Examples that the schema gives for each argument that is required."""
    if manifest is None:
        raise CommandError("Say what a sample operation looks like: --arguments JSON.")
    schema = manifest.arguments
    given = {name: _given(schema["properties"].get(name)) for name in schema.get("required", [])}
    if missing := [name for name, values in given.items() if not values]:
        raise CommandError(
            f"The schema has no examples for {', '.join(missing)}: give --arguments JSON."
        )
    arguments = {name: values[0] for name, values in given.items()}
    if misfits := json_schemas.misfits(schema, arguments):
        first = misfits[0]
        raise CommandError(f"The example of {first['field'] or 'the schema'} does not fit.")
    return arguments


def _given(schema: Any) -> list[Any]:
    members = schema if isinstance(schema, dict) else {}
    defaults = [members[name] for name in ("default", "const") if name in members]
    return [*members.get("examples", []), *defaults, *members.get("enum", [])]


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as failure:
        raise CommandError(f"The arguments are not JSON: {failure}") from failure
    if not isinstance(value, dict):
        raise CommandError("The arguments are a JSON object.")
    return value


def _with_another_digit(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same, but for the last digit of the last value that has one."""
    changed = dict(arguments)
    for name in reversed(arguments):
        value = arguments[name]
        if isinstance(value, int) and not isinstance(value, bool):
            return {**changed, name: value + 1}
        if isinstance(value, str) and (
            digits := [i for i, c in enumerate(value) if c in "0123456789"]
        ):
            at = digits[-1]
            other = str((int(value[at]) + 1) % 10)
            return {**changed, name: f"{value[:at]}{other}{value[at + 1 :]}"}
    return changed
