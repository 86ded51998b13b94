"""Tools that are asked by webhooks: one address, one secret, and the verb in the signed body."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import yaml
from django.core.management import call_command
from django.utils import timezone
from standardwebhooks import Webhook, WebhookVerificationError

from ledger import execution
from ledger.foundation.crypto import standard_webhooks
from ledger.foundation.http_out.safe_http import CredentialUnusable
from ledger.models import Credential, Event, RegisteredTool
from ledger.principals import Surface
from ledger.tools import credentials, manifests, pinned_contracts, registrations
from ledger.tools.credentials import CredentialRefused
from ledger.tools.registrations import loosened
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.http_tools.conftest import OPERATOR, manifest
from tests.http_tools.test_example import EXAMPLE, Example
from tests.processes import free_port

pytestmark = pytest.mark.django_db(transaction=True)
BY = {"by": OPERATOR, "via": Surface.COMMAND}
ADDRESS = "https://payments.example/assent"
ARGUMENTS = {"invoice": "7", "amount": 1}


@pytest.fixture
def secret(acme, service):
    """The tool's, whose service answers only what a library for Standard Webhooks accepts."""
    made = standard_webhooks.new_secret()
    keep(acme, made, f"127.0.0.1:{service.port}")
    service.webhook = Webhook(made)
    return made


def keep(tenant, secret, *hosts, **options):
    credentials.set_signing_secret(
        tenant, "billing", hosts=hosts or ["payments.example"], secret=secret, **BY, **options
    )


def signed_off(alice, tool="refund_invoice", **arguments):
    row = propose(tool, **(arguments or ARGUMENTS))
    return coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")


def test_a_signature_is_that_of_the_published_example():
    """Of the documents of Svix, where Standard Webhooks comes from."""
    signature = standard_webhooks.signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_everything_is_asked_of_one_address_and_signed(secret, service, registered, alice):
    registered(signing_secret="billing", contract={"retry_safe": True})
    service.answers["plan"] = (200, {"plan": {"summary": "Refund 7"}}, {})
    service.answers["commit"] = (202, {}, {"Retry-After": "0"})
    service.answers["find_receipt"] = (200, {"receipt": {"id": "re_7"}}, {})
    row = signed_off(alice)

    execution.commit(row.pk)
    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "re_7")
    assert {(asked.method, asked.path) for asked in service.asked} == {("POST", "/")}
    verbs = [asked.body["verb"] for asked in service.asked]
    assert verbs == ["plan", "commit", "find_receipt"]
    for asked in service.asked:
        assert (asked.body["tenant"], asked.body["tool"]) == ("acme", "refund_invoice")
        assert asked.body["operation_key"] == row.operation_key
        assert "Signature" not in asked.headers
    assert len({asked.nonce for asked in service.asked}) == 3


def test_what_its_owner_publishes_is_asked_for_in_the_same_way(secret, service, registered, acme):
    registered(signing_secret="billing")
    promises = {"reversible": True, "idempotent": True, "receipt_lookup": True, "plan": True}
    contract = {
        "name": "refund_invoice",
        "version": "1",
        "json_schema": {"type": "object"},
        "promises": promises,
    }
    service.answers["contract"] = (200, contract, {})
    row = RegisteredTool.objects.get(tenant=acme)

    assert pinned_contracts.read_contract(row) == contract

    (asked,) = service.asked
    assert asked.body == {"verb": "contract", "tool": "refund_invoice", "tenant": "acme"}


@pytest.mark.parametrize("trouble", ["missing", "of another host", "a header", "unreadable"])
def test_without_its_secret_nothing_is_sent(trouble, acme, service, registered, settings):
    host = f"127.0.0.1:{service.port}"
    if trouble == "a header":
        credentials.set_header(
            acme, "billing", hosts=[host], header="Authorization", value="Bearer x", **BY
        )
    elif trouble != "missing":
        elsewhere = "payments.example" if trouble == "of another host" else host
        keep(acme, standard_webhooks.new_secret(), elsewhere)
    if trouble == "unreadable":
        settings.ENCRYPTION_KEYS = ["99" * 32]
    registered(signing_secret="billing", routes=["plan"])

    with pytest.raises(Exception, match="Nothing was sent"):
        propose("refund_invoice", **ARGUMENTS)

    assert service.asked == []


def test_a_signing_secret_is_shown_to_no_service(acme, secret, service, registered):
    registered(credential="billing", routes=["plan"])

    with pytest.raises(Exception, match="billing is a signing secret") as refusal:
        propose("refund_invoice", **ARGUMENTS)

    assert service.asked == []
    assert secret not in str(refusal.value)


# --- renewing it ------------------------------------------------------------------------------


def verified_by(secret, headers, body):
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def test_for_a_day_after_it_was_renewed_both_sign(acme):
    before, after = standard_webhooks.new_secret(), standard_webhooks.new_secret()
    keep(acme, before)
    keep(acme, after)

    found = credentials.signing_secrets("acme", "billing", ADDRESS)
    headers = standard_webhooks.headers(found, "msg_1", b"{}")
    assert [verified_by(secret, headers, b"{}") for secret in (before, after)] == [True, True]

    Credential.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert credentials.signing_secrets("acme", "billing", ADDRESS) == [after]


def test_a_secret_that_leaked_ends_at_once(acme):
    leaked, after = standard_webhooks.new_secret(), standard_webhooks.new_secret()
    keep(acme, leaked)
    keep(acme, after, at_once=True)

    assert credentials.signing_secrets("acme", "billing", ADDRESS) == [after]


def test_what_was_signed_off_before_it_was_renewed_is_carried_out(
    acme, secret, service, registered, alice
):
    registered(signing_secret="billing", routes=[])
    service.answers["commit"] = (200, {"receipt": {"id": "re_7"}}, {})
    row = signed_off(alice)
    keep(acme, standard_webhooks.new_secret(), f"127.0.0.1:{service.port}")

    execution.commit(row.pk)

    row.refresh_from_db()
    assert row.receipt == "re_7"


def test_another_tenant_does_not_get_it(acme, globex):
    keep(acme, standard_webhooks.new_secret())

    with pytest.raises(CredentialUnusable, match="globex has no credential"):
        credentials.signing_secrets("globex", "billing", ADDRESS)


@pytest.mark.parametrize("wrong", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%", "MfKQ9r8G" * 4])
def test_what_is_no_secret_is_refused_without_quoting_it(acme, wrong):
    with pytest.raises(CredentialRefused) as refusal:
        keep(acme, wrong)

    assert not wrong or wrong not in str(refusal.value).replace("whsec_ and", "")
    assert not Credential.objects.exists()


# --- setting it -------------------------------------------------------------------------------


def test_the_command_shows_it_once_and_the_log_of_changes_never(acme):
    out = io.StringIO()

    call_command(
        *("tools", "credential", "billing", "--tenant", "acme", "--host", "payments.example"),
        "--signing-secret",
        stdout=out,
    )

    shown = out.getvalue().rsplit(" ", 1)[1].strip()
    assert "beside it" not in out.getvalue()
    assert credentials.signing_secrets("acme", "billing", ADDRESS) == [shown]
    (event,) = Event.objects.filter(kind="credential_added")
    assert "signing_secret" in event.details
    assert shown.removeprefix("whsec_") not in event.details


def test_changing_to_it_takes_a_second_operator():
    strong = manifests.read(manifest(ADDRESS))
    easy = manifests.read(manifest(ADDRESS, signing_secret="billing"))

    assert loosened(strong, easy) == ["signing_secret"]
    assert "signing_secret" not in strong.as_json()


# --- the examples -----------------------------------------------------------------------------

PROGRAMS = [(sys.executable, "easy_tool.py"), (shutil.which("node") or "", "easy_tool.mjs")]


@pytest.fixture(params=PROGRAMS, ids=["python", "node"])
def example(request, settings, tmp_path, acme):
    program, file = request.param
    if not program:
        pytest.skip("Node is not on this machine.")
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    made, kept = standard_webhooks.new_secret(), tmp_path / "secret.txt"
    kept.write_text(f"{made}\n")
    example = Example(str(kept), tmp_path, (program, str(EXAMPLE / file)))
    example.secret, example.address = made, f"http://127.0.0.1:{example.port}"
    keep(acme, made, f"127.0.0.1:{example.port}")
    content = yaml.safe_load((EXAMPLE / "tools.yaml").read_text())["tools"][0]
    changes = {"address": example.address, "signing_secret": "billing"}
    registrations.register(acme, manifests.read({**content, **changes}), **BY)
    yield example
    example.stop()


def test_the_example_refunds_once_and_says_so(example, alice):
    row = signed_off(alice, invoice="2042", amount="48.20")

    execution.commit(row.pk)

    row.refresh_from_db()
    (done,) = example.rows().values()
    assert (row.state, row.receipt) == ("committed", done["receipt"]["id"])
    assert len(example.rows()) == 1


def commit_of(example, **changes):
    body = {"verb": "commit", "tenant": "acme", "tool": "refund_invoice", "operation_key": "k"}
    more = {"transaction_id": "t" * 36, "fencing": 1, "arguments": {}, **changes}
    return httpx.Request("POST", example.address, json={**body, **more})


def sent(request, secret="", at=None, **changes):
    if secret:
        request.headers.update(standard_webhooks.headers([secret], "msg_1", request.content, at=at))
    request.headers.update(changes)
    with httpx.Client() as client:
        return client.send(request).status_code


def test_the_example_serves_nobody_but_assent(example):
    request, secret = commit_of(example), example.secret
    long_ago = datetime.now(UTC) - timedelta(minutes=10)
    signed = standard_webhooks.headers([secret], "msg_1", request.content)

    assert sent(commit_of(example)) == 401
    assert sent(commit_of(example), standard_webhooks.new_secret()) == 401
    assert sent(commit_of(example), secret, at=long_ago) == 401
    assert sent(commit_of(example), secret, **{"webhook-timestamp": "soon"}) == 401
    assert sent(commit_of(example), secret, **{"webhook-id": "msg_2"}) == 401
    assert sent(commit_of(example, verb="rollback"), **signed) == 401
    assert sent(commit_of(example, tenant="globex"), secret) == 403
    assert sent(commit_of(example, tool="pay"), secret) == 403
    for verb in ("scuttle", "toString", "__proto__"):  # the latter two are members of every object
        assert sent(commit_of(example, verb=verb), secret) == 400
    assert example.rows() == {}

    assert sent(request, **signed) == 200
    assert list(example.rows()) == ["k"]


@pytest.mark.parametrize("content", ["", "whsec_", "whsec_!!!", "whsec_QUJD"])
@pytest.mark.parametrize(("program", "file"), PROGRAMS, ids=["python", "node"])
def test_without_a_secret_the_example_does_not_start(program, file, content, tmp_path):
    if not program:
        pytest.skip("Node is not on this machine.")
    secret = tmp_path / "secret.txt"
    secret.write_text(content)
    arguments = [str(free_port()), str(secret), str(tmp_path / "refunds.json")]

    ended = subprocess.run([program, str(EXAMPLE / file), *arguments], timeout=20, check=False)

    assert ended.returncode == 1
