"""The conformance kit: both examples pass; each broken service fails at the check for its fault."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import CommandError, call_command

from approvals.conformance import run
from approvals.conformance.management.commands import check_tool
from approvals.conformance.probe import Probe, Sample, WithKey, WithSecret
from approvals.conformance.run import Finding
from approvals.conformance.terms import RELIED_ON
from ledger.foundation.crypto import signing_keys, standard_webhooks
from ledger.tools.http import published
from ledger.tools.manifests import HttpManifest
from tests.http_tools.broken_service import Behaviour, serving
from tests.http_tools.conftest import manifest
from tests.processes import free_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "http_tool"
ARGUMENTS = '{"invoice": "2042", "amount": "48.20"}'
SECOND_PLANS = {"replan", "rollback of a former plan"}
# A check that no service can fail alone: what it looks at stands in the way of others.
ALSO = {
    "bad signature": {
        "expired signature",
        "early signature",
        "altered body",
        "other target",
        "other address",
    },
    "commit": {
        "double commit",
        "two commits at once",
        "other arguments",
        "stale fencing",
        "look-up",
        "rollback of what was done",
        "compensate",
        "double compensate",
        *SECOND_PLANS,
    },
    "plan": SECOND_PLANS,
    "compensate": {"double compensate"},
    "published contract": {"promises", "arguments"},
    "double commit": {"two commits at once", "other arguments"},
    "empty rollback": {"late commit", "late plan", *SECOND_PLANS},
    "slow answers": {"unknown operation"},
    "large answers": {"unknown operation"},
    "form of answers": {
        "other arguments",
        "stale fencing",
        "lapsed lease",
        "rollback of what was done",
        "late commit",
        "late plan",
        "compensate of nothing",
    },
}
WAITS = {"slow answers", "two commits at once"}  # the service does, for seconds
FAULTS = [name for name, *_ in run.CHECKS if name != "kill"]


WHOLE = HttpManifest.read(
    manifest(
        "https://tool.example",
        routes=["plan", "replan", "still_valid", "rollback", "compensate", "find_receipt"],
        contract={"retry_safe": True, "consequence_level": "COMPENSABLE"},
    )
)


def found_in(fault: str, **changes: object) -> dict[str, Finding]:
    """What the kit finds in a service that has every route, and asks for a header."""
    key = Ed25519PrivateKey.generate()
    routes = frozenset(WHOLE.routes)
    sample = Sample("refund_invoice", {"amount": "48.20"}, {"amount": "48.21"}, routes)
    with serving(Behaviour(key, fault, header="right")) as address:
        given = {
            "timeout_s": 2 if fault in WAITS else 10,
            "shown": {"X-Api-Key": "right"},
            "manifest": WHOLE,
            **changes,
        }
        probe = Probe(address, sample, WithKey(key), **given)
        return {found.name: found for found in run.findings(probe)}


def failed(fault: str) -> set[str]:
    return {name for name, found in found_in(fault).items() if found.is_failure}


def test_a_strict_service_passes():
    assert failed("") == set()


ALL = [pytest.param(name, marks=[pytest.mark.slow] * (name in WAITS)) for name in FAULTS]


@pytest.mark.parametrize("fault", ALL)
def test_a_broken_service_fails_at_the_check_for_its_fault(fault):
    assert failed(fault) == {fault} | ALSO.get(fault, set())


def test_what_differs_from_the_manifest_is_named_with_what_comes_of_it():
    promised = found_in("promises")["promises"]
    arguments = found_in("arguments")["arguments"]

    assert promised.came == RELIED_ON["idempotent"]
    assert arguments.came == "they differ at properties.amount.exclusiveMinimum"
    assert "refused afterwards" in arguments.why


def test_what_a_schema_says_of_no_argument_is_no_difference():
    described = {
        "title": "A refund",
        "required": ["b", "a"],
        "properties": {"title": {"type": "string", "description": "Its name."}},
    }
    plain = {"required": ["a", "b"], "properties": {"title": {"type": "string"}}}

    assert [*published.schema_differences(plain, described)] == []
    assert [*published.schema_differences(plain, {**plain, "properties": {}})] == [
        "properties.title"
    ]
    assert [*published.schema_differences(plain, {**plain, "minProperties": 1})] == [
        "minProperties"
    ]


def test_a_manifest_that_relies_on_less_than_is_promised_is_no_difference():
    terms = manifest("https://tool.example", routes=[], contract={"retry_safe": False})
    promised = found_in("promises", manifest=HttpManifest.read(terms))["promises"]

    assert not promised.is_failure
    assert not promised.skipped


def test_without_a_manifest_nothing_is_compared_and_without_a_header_none_is_checked():
    key = Ed25519PrivateKey.generate()
    sample = Sample("refund_invoice", {"amount": "48.20"}, {"amount": "48.21"})
    with serving(Behaviour(key)) as address:
        found = [*run.findings(Probe(address, sample, WithKey(key), timeout_s=2))]

    assert {each.name for each in found if each.is_failure} == set()
    assert {each.name for each in found if each.skipped} == {
        *("kill", "credential", "promises", "arguments"),
        *("compensate", "double compensate", "compensate of nothing"),
        *("replan", "rollback of a former plan", "still valid", "effect of still valid"),
    }


@pytest.mark.parametrize(
    ("header", "value"), [("Host", "x"), ("X-Api-Key", ""), ("X-Api-Key", "a\nb"), ("a b", "x")]
)
def test_a_header_that_no_credential_may_be_is_refused(header, value, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(value))

    with pytest.raises(CommandError):
        call_command("check_tool", "http://127.0.0.1:1", arguments=ARGUMENTS, header=header)


@pytest.mark.parametrize("fault", ["", "credential"])
def test_the_command_shows_the_header_that_comes_by_its_input(
    fault, settings, monkeypatch, tmp_path
):
    file = tmp_path / "tools.json"
    members = {**manifest("https://tool.example"), "contract": WHOLE.contract.model_dump()}
    file.write_text(json.dumps({"tenant": "check", "tools": [members]}))
    monkeypatch.setattr("sys.stdin", io.StringIO("right\n"))
    own_key, said = signing_keys.key_of(settings.TOOL_KEYS[0]), io.StringIO()

    with serving(Behaviour(own_key, fault, header="right")) as address:
        options = {"manifest": file, "arguments": ARGUMENTS, "timeout": 2, "stdout": said}
        expected = pytest.raises(CommandError, match="1 of") if fault else nullcontext()
        with expected:
            call_command("check_tool", address, header="X-Api-Key", **options)

    assert ("FAIL  credential" if fault else "ok    credential") in said.getvalue()
    assert "right" not in said.getvalue()


# What is signed in another way, or in other words, if the service is asked by webhooks.
OF_WEBHOOKS = {
    "missing signature": set(),
    "bad signature": {"altered body", "other target"},
    "expired signature": set(),
    "early signature": set(),
    "altered body": {"bad signature", "other target"},
    "another tool or tenant": set(),
    "late commit": set(),
}


@pytest.mark.parametrize("fault", ["", *OF_WEBHOOKS])
def test_a_service_that_is_asked_by_webhooks_is_checked_too(fault):
    secret = standard_webhooks.new_secret()
    sample = Sample("refund_invoice", {"amount": "48.20"}, {"amount": "48.21"})
    with serving(Behaviour(None, fault, secret)) as address:
        found = list(run.findings(Probe(address, sample, WithSecret(secret), timeout_s=2)))

    assert {each.name for each in found if each.is_failure} == (
        {fault} | OF_WEBHOOKS[fault] if fault else set()
    )
    assert {each.name for each in found if each.skipped} == {
        *("other address", "kill", "credential", "promises", "arguments"),
        *("compensate", "double compensate", "compensate of nothing"),
        *("replan", "rollback of a former plan", "still valid", "effect of still valid"),
    }


@pytest.mark.parametrize("fault", ["verb of header", "verb of path", "key of header"])
def test_a_service_that_reads_what_no_webhook_signs_is_told_so(fault):
    secret = standard_webhooks.new_secret()
    sample = Sample("refund_invoice", {"amount": "48.20"}, {"amount": "48.21"})
    with serving(Behaviour(None, fault, secret)) as address:
        found = list(run.findings(Probe(address, sample, WithSecret(secret), timeout_s=2)))

    assert [each.name for each in found if each.is_failure] == ["other target"]


def test_every_finding_says_what_came_and_why_it_matters():
    key = Ed25519PrivateKey.generate()
    sample = Sample("refund_invoice", {"amount": "48.20"}, {"amount": "48.21"})
    with serving(Behaviour(key, "late commit")) as address:
        probe = Probe(address, sample, WithKey(key), timeout_s=2)
        (found,) = [each for each in run.findings(probe) if each.is_failure]

    assert found.came.startswith("200 ")
    assert found.why == "What people rejected would still be done."


# Keeps what it did in memory only.
FORGETS = """
import runpy, sys
from pathlib import Path
Path.replace = lambda *_: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def checked(folder: Path, *program: str, secret_file: Path | None = None) -> str:
    port, keys = free_port(), free_port()
    known = str(secret_file or f"http://127.0.0.1:{keys}")
    command = [*program, str(port), known, str(folder / "refunds.json")]
    said = io.StringIO()
    call_command(
        "check_tool",
        f"http://127.0.0.1:{port}",
        manifest=EXAMPLE / "tools.yaml",
        arguments=ARGUMENTS,
        start=shlex.join(command),
        keys_port=keys,
        secret_file=secret_file,
        timeout=10,
        stdout=said,
    )
    return said.getvalue()


# Neither of the examples asks for a header, makes good what it did, or publishes anything.
OFFERED_BY_NONE = {
    *("credential", "compensate", "double compensate", "compensate of nothing"),
    *("published contract", "promises", "arguments"),
}


def skipped(said: str) -> set[str]:
    return set(re.findall(r"^skip +([a-z ]+):", said, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "file"), [(sys.executable, "tool.py"), ("node", "tool.mjs")], ids=["python", "node"]
)
def test_both_examples_keep_the_protocol_also_when_they_are_killed(program, file, tmp_path):
    if shutil.which(program) is None:
        pytest.skip("Node is not on this machine.")

    said = checked(tmp_path, program, str(EXAMPLE / file))

    assert "ok    kill" in said
    assert "FAIL" not in said
    assert skipped(said) == OFFERED_BY_NONE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "file"),
    [(sys.executable, "easy_tool.py"), ("node", "easy_tool.mjs")],
    ids=["python", "node"],
)
def test_both_examples_of_the_easy_mode_keep_it_too(program, file, tmp_path):
    if shutil.which(program) is None:
        pytest.skip("Node is not on this machine.")
    secret = tmp_path / "secret.txt"
    secret.write_text(standard_webhooks.new_secret())

    said = checked(tmp_path, program, str(EXAMPLE / file), secret_file=secret)

    assert "ok    kill" in said
    assert "FAIL" not in said
    assert skipped(said) == {"other address", *OFFERED_BY_NONE}


@pytest.mark.parametrize("text", [None, "whsec_short", "no secret"])
def test_a_file_without_a_secret_is_refused_without_quoting_it(text, tmp_path):
    file = tmp_path / "secret.txt"
    if text is not None:
        file.write_text(text)

    with pytest.raises(CommandError, match=r"cannot be read|A signing secret is") as refusal:
        call_command("check_tool", "http://127.0.0.1:1", arguments=ARGUMENTS, secret_file=file)

    assert text is None or text not in str(refusal.value)


@pytest.mark.slow
def test_a_service_that_forgets_in_a_crash_fails_the_kill(tmp_path):
    with pytest.raises(CommandError, match=f"1 of {len(run.CHECKS)} checks failed"):
        checked(tmp_path, sys.executable, "-c", FORGETS, str(EXAMPLE / "tool.py"))


def test_a_service_that_is_not_there_is_said_so_once():
    with pytest.raises(CommandError, match=r"Nothing answers at http://127.0.0.1:\d+: start it"):
        call_command(
            "check_tool", f"http://127.0.0.1:{free_port()}", arguments=ARGUMENTS, keys_port=0
        )


def test_a_sample_without_digits_needs_other_arguments_too():
    with pytest.raises(CommandError, match="--other-arguments"):
        call_command("check_tool", "http://127.0.0.1:1", arguments='{"who": "x"}', keys_port=0)


def with_properties(**properties: object) -> HttpManifest:
    arguments = {
        "type": "object",
        "additionalProperties": False,
        "required": sorted(properties),
        "properties": properties,
    }
    key = "check:{tenant}:{invoice}"
    return HttpManifest.read(
        manifest("https://payments.example", arguments=arguments, contract={"operation_key": key})
    )


def test_a_schema_with_examples_makes_the_sample():
    shown = {"type": "string", "examples": ["2042"]}
    chosen = {"enum": ["EUR", "USD"]}

    sample = check_tool._examples(with_properties(invoice=shown, currency=chosen))

    assert sample == {"invoice": "2042", "currency": "EUR"}


def test_a_schema_without_examples_names_what_has_to_be_given():
    with pytest.raises(CommandError, match="no examples for invoice: give --arguments"):
        check_tool._examples(with_properties(invoice={"type": "string"}))


def test_an_example_that_does_not_fit_its_own_schema_is_refused():
    with pytest.raises(CommandError, match="The example of invoice does not fit"):
        check_tool._examples(with_properties(invoice={"type": "string", "examples": [7]}))
