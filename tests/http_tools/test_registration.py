"""``manage.py tools``: what is registered, refused, changed, and written into the audit log."""

from __future__ import annotations

from io import StringIO

import pytest
import yaml
from django.core.management import CommandError, call_command

from ledger import contracts
from ledger.contracts import Tool
from ledger.errors import UnknownTool
from ledger.models import Event, ToolVersion
from ledger.tools import manifests, registrations
from ledger.tools.catalogue import registered, tool_named
from ledger.tools.checks import check_contracts, unsafe
from tests.conftest import propose
from tests.http_tools.conftest import manifest

pytestmark = pytest.mark.django_db

ADDRESS = "https://payments.example/tools"


@pytest.fixture
def apply(tmp_path, acme):
    def run(*manifests, tenant="acme", **options):
        file, out = tmp_path / "tools.yaml", StringIO()
        file.write_text(yaml.safe_dump({"tenant": tenant, "tools": list(manifests)}))
        call_command("tools", "apply", str(file), stdout=out, **options)
        return out.getvalue()

    return run


def test_a_file_is_applied_once_however_often_it_is(apply):
    assert "refund_invoice: new" in apply(manifest(ADDRESS))
    assert "refund_invoice: unchanged" in apply(manifest(ADDRESS))

    assert ToolVersion.objects.count() == 1
    (event,) = Event.objects.filter(kind="tool_registered")
    assert event.tenant == "acme"
    assert tool_named("acme", "refund_invoice").runs_at == "payments.example"


def test_a_new_tool_is_shown_as_the_file_says_it_and_whole_when_asked(apply):
    told = apply(manifest(ADDRESS, contract={"risk_level": "LOW"}), dry_run=True)

    assert 'contract.risk_level: "LOW"' in told
    assert "quorum" not in told
    assert "others have their defaults (-v 2 shows them)." in told
    whole = apply(manifest(ADDRESS), dry_run=True, verbosity=2)
    assert "contract.quorum: 1" in whole
    assert "defaults" not in whole


def test_a_slash_at_the_end_of_an_address_says_nothing(apply):
    apply(manifest(ADDRESS))

    assert "refund_invoice: unchanged" in apply(manifest(f"{ADDRESS}/"))


def test_a_dry_run_shows_what_would_change_and_changes_nothing(apply):
    apply(manifest(ADDRESS))

    told = apply(manifest(ADDRESS, contract={"risk_level": "LOW"}), dry_run=True)

    assert 'contract.risk_level: "HIGH" → "LOW"' in told
    assert "Nothing was changed" in told
    assert tool_named("acme", "refund_invoice").contract.risk_level == "HIGH"


def test_a_change_is_sealed_with_what_it_changed_and_a_return_is_the_old_version(apply):
    apply(manifest(ADDRESS))
    apply(manifest(ADDRESS, contract={"quorum": 2}))
    apply(manifest(ADDRESS))

    assert ToolVersion.objects.count() == 2
    first, second = Event.objects.filter(kind="tool_changed").order_by("pk")
    assert '"contract.quorum":[1,2]' in first.details
    assert '"contract.quorum":[2,1]' in second.details


def test_a_withdrawn_tool_cannot_be_proposed(apply, acme):
    apply(manifest(ADDRESS))

    call_command("tools", "withdraw", "refund_invoice", tenant="acme", stdout=StringIO())

    assert registered("acme") == {}
    with pytest.raises(UnknownTool):
        propose("refund_invoice", invoice="1", amount=1)
    with pytest.raises(CommandError, match="has registered no tool"):
        call_command("tools", "withdraw", "refund_invoice", tenant="acme")


def _of(**contract):
    return manifest(ADDRESS, contract=contract)


def _deep(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def _doubling(levels):
    parts = {"part0": {"type": "integer"}}
    for level in range(1, levels):
        branches = [{"$ref": f"#/$defs/part{level - 1}"} for _ in range(2)]
        parts[f"part{level}"] = {"anyOf": branches}
    return {"properties": {"x": {"$ref": f"#/$defs/part{levels - 1}"}}, "$defs": parts}


def _arguments(**changes):
    return {**manifest(ADDRESS)["arguments"], **changes}


REFUSED = {
    "an unknown member": ({**manifest(ADDRESS), "risk": "LOW"}, "risk: there is no such member"),
    "an unknown member of the contract": (_of(risk="LOW"), "contract.risk"),
    "a name of other letters": (
        manifest(ADDRESS, name="r\N{CYRILLIC SMALL LETTER IE}fund"),
        "name",
    ),
    "a name with a line break": (manifest(ADDRESS, name="refund\n"), "name"),
    "text that runs backwards": (manifest(ADDRESS, description="pay \u202eyap"), "manifest"),
    "no address": (manifest("ftp://payments.example"), "address"),
    "a password in the address": (manifest("https://a:b@payments.example"), "address"),
    "an address of this machine": (manifest("http://127.0.0.1:9000"), "address"),
    "a host of other letters": (
        manifest("https://p\N{CYRILLIC SMALL LETTER A}yments.example/tools"),
        "the host is written in ASCII",
    ),
    "a host that reads like another": (
        manifest(r"https://payments.example\.other.example/tools"),
        "the host is written in ASCII",
    ),
    "a query in the address": (manifest(f"{ADDRESS}?x=1"), "address"),
    "a schema of something else": (
        manifest(ADDRESS, arguments={"type": "string"}),
        "the arguments are an object",
    ),
    "arguments nobody declared": (
        manifest(ADDRESS, arguments=_arguments(additionalProperties=True)),
        "additionalProperties",
    ),
    "a schema that is none": (
        manifest(ADDRESS, arguments=_arguments(required="invoice")),
        "not of type",
    ),
    "a schema from elsewhere": (
        manifest(ADDRESS, arguments=_arguments(properties={"x": {"$ref": "https://x.example"}})),
        "arguments",
    ),
    "a pattern that takes for ever": (
        manifest(ADDRESS, arguments=_arguments(properties={"x": {"pattern": r"^(?=(a+)+$)"}})),
        "arguments",
    ),
    "a deep schema": (
        manifest(ADDRESS, arguments=_arguments(properties={"x": _deep(100)})),
        "nested",
    ),
    "a huge schema": (
        manifest(ADDRESS, arguments=_arguments(description="x" * 60_000)),
        "arguments",
    ),
    "a schema that unfolds without end": (
        manifest(ADDRESS, arguments=_arguments(**_doubling(40))),
        "unfold",
    ),
    "an argument that no model can have": (
        manifest(ADDRESS, arguments=_arguments(properties={"__base__": {"type": "string"}})),
        "cannot be the name of an argument",
    ),
    "an argument that hides a part of the model": (
        manifest(ADDRESS, arguments=_arguments(properties={"model_fields_set": {}})),
        "cannot be the name of an argument",
    ),
    "a format in the operation key": (
        _of(operation_key="r:{tenant}:{invoice:>1000000000}"),
        "plain name",
    ),
    "an attribute in the operation key": (
        _of(operation_key="r:{tenant}:{invoice.__class__}"),
        "plain name",
    ),
    "an operation key of another argument": (_of(operation_key="r:{tenant}:{who}"), "E003"),
    "an operation key without the operation": (_of(operation_key="r:{tenant}"), "E002"),
    "high risk that nobody approves": (_of(required_approver="NONE"), "E007"),
    "a compensation that is not there": (
        manifest(ADDRESS, routes=[], contract={"consequence_level": "COMPENSABLE"}),
        "E006",
    ),
    "a ttl outside of its limits": (_of(ttl_s=1), "E008"),
    "no time for a call": (_of(timeout_s=0), "contract.timeout_s"),
    "a call over a minute that nobody can ask for": (
        manifest(ADDRESS, routes=[], contract={"timeout_s": 61}),
        "contract.timeout_s",
    ),
    "a call over a day": (_of(timeout_s=86_401), "contract.timeout_s"),
    "a quorum that nobody reaches": (
        _of(quorum=2, required_approver="NONE", risk_level="LOW"),
        "E010",
    ),
    "the web only, for agents": (_of(web_only=True, required_approver="SUPERVISOR"), "E011"),
    "a reminder after the end": (_of(remind_s=900), "E012"),
    "content that is gone before it is decided": (_of(retention_s=60), "E014"),
    "a subject that is no argument": (_of(subject="customer"), "E015"),
    "the sentence of a compensation that is not there": (
        manifest(ADDRESS, routes=[], contract={"compensation": "Charge again."}),
        "E016",
    ),
    "a sentence of other arguments": (_of(compensation="Charge {customer} again."), "E017"),
    "no owner": (_of(owner_service=""), "contract.owner_service"),
    "the name of a tool of Assent, to wait": (manifest(ADDRESS, name="assent_wait"), "itself"),
    "the name of a tool of Assent, to cancel": (manifest(ADDRESS, name="assent_cancel"), "itself"),
    "the name of a tool of Assent, to ask": (manifest(ADDRESS, name="ask_a_person"), "itself"),
    "the name of a tool of this installation": (manifest(ADDRESS, name="pay"), "another name"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_offered_is_refused_with_its_reason(what, apply):
    wrong, reason = REFUSED[what]

    with pytest.raises(CommandError) as refusal:
        apply(manifest(ADDRESS, name="before"), wrong)

    assert reason in str(refusal.value)
    assert "Nothing was changed" in str(refusal.value)
    assert ToolVersion.objects.count() == 0


@pytest.mark.parametrize("imitation", ["refund__invoice", "refund_invoice_", "refund_inv0ice"])
def test_a_name_that_reads_like_that_of_another_tool_is_refused(apply, imitation):
    apply(manifest(ADDRESS))

    with pytest.raises(CommandError, match="reads like refund_invoice"):
        apply(manifest(ADDRESS, name=imitation))

    call_command("tools", "withdraw", "refund_invoice", tenant="acme", stdout=StringIO())
    assert "new" in apply(manifest(ADDRESS, name=imitation))


@pytest.mark.parametrize(
    ("hidden", "reason"),
    [
        ("risk_level: HIGH\nrisk_level: LOW", "risk_level.* stands in it twice"),
        ("<<: {required_approver: NONE}", "merging"),
        ("first: &a [1]\nsecond: *a", "aliases"),
    ],
)
def test_a_text_of_which_a_reader_sees_another_half_is_refused(hidden, reason):
    with pytest.raises(manifests.ManifestRefused, match=reason):
        manifests.texts.parse(hidden)


def test_a_file_of_which_one_tool_is_refused_late_registers_none(apply):
    """A refusal that only registering finds takes back what was registered before it."""
    of_a_server = {
        **manifest(ADDRESS, name="billing_refund"),
        **{"kind": "mcp", "upstream": "billing", "tool": "refund"},
        "sha256_of_definition": "0" * 64,
    }
    del of_a_server["routes"]

    with pytest.raises(CommandError, match="Nothing was changed"):
        apply(manifest(ADDRESS), of_a_server)

    assert ToolVersion.objects.count() == 0
    assert not Event.objects.filter(kind="tool_registered").exists()


def test_a_rule_says_of_a_manifest_what_it_says_of_a_python_tool(acme):
    wrong = manifests.read(_of(required_approver="NONE"))
    same = Tool(lambda invoice: {}, wrong.contract.contract())
    same.name = wrong.name

    with pytest.raises(registrations.Unsafe) as refusal:
        registrations.check(acme, wrong)

    texts = {f"{error.id}: {error.msg} {error.hint}" for error in unsafe(same)}
    assert str(refusal.value) in texts


def test_a_python_tool_with_a_name_of_assent_does_not_start(monkeypatch):
    monkeypatch.setitem(contracts.tools, "assent_wait", contracts.tools["pay"])

    assert "ledger.E018" in [error.id for error in check_contracts()]


def test_a_changed_operation_key_is_refused_while_the_old_one_holds_operations(
    apply, service, registered, settings
):
    registered(routes=[])
    propose("refund_invoice", invoice="7", amount=1)

    with pytest.raises(CommandError, match="E013"):
        apply(
            manifest(
                service.address,
                routes=[],
                contract={"operation_key": "refund:{tenant}:{invoice}"},
            )
        )


def test_every_member_that_differs_is_named(apply):
    old = manifests.read(manifest(ADDRESS))
    new = manifests.read(manifest(ADDRESS, description="Other.", routes=["plan"]))

    assert set(registrations.differences(old, new)) == {"description", "routes"}
