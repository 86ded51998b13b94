"""What operators have clicked together is exported, and applied elsewhere it is the same."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from a2a.models import Skill
from approvals.people import principal_of
from ledger.events import four_eyes
from ledger.models import AgentToken, Event, Owner, Tenant
from ledger.sign_off import groups, rules
from ledger.tools import credentials
from tests.declared.conftest import exported, kinds_since
from tests.house.source import ROOT

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clicked(
    settings, acme, as_olga, as_otto, olga_user, alice_user, bob_user, alice, bob, otto_user
):
    """A tenant that people keep on the desk's pages, with one of nearly everything."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]

    def post(path, who=as_olga, **fields):
        answer = who.post(path, fields)
        assert answer.status_code in {200, 302}, faults_on(answer)
        return answer

    post("/agents/new/", tenant="acme", name="Helpdesk agent", tools=["pay"], lasts="7776000")
    helpdesk = acme.agents.get()
    page = f"/agents/{helpdesk.pk}/"
    post(
        page,
        as_otto,  # olga keeps it, as she made it
        **{"name": "Helpdesk", "is_active": "on", "tools": ["pay", "launch"]},
        **{"initial-tools": "pay", "initial-review_percent": "10"},
        **{"review_percent": "25", "webhook_url": "https://helpdesk.example/hook"},
        **{"kept_by": f"user:{alice_user.pk}", "limit_pending": "77"},
    )
    post(f"{page}tokens", scopes=["submit", "work"], further_scopes="transcripts:read")
    post(f"{page}tokens", scopes=["submit", "work"], further_scopes="transcripts:read")
    post("/connections/skills/new/", **skill(helpdesk))
    post("/tools/owners/", tenant="acme", service="payments", webhook_url="https://p.example/hook")
    call_command("tools", "apply", str(ROOT / "examples/http_tool/tools.yaml"), stdout=StringIO())
    by = {"by": principal_of(olga_user), "via": "web"}
    hosts = ["b.example", "c.example:8443"]
    credentials.set_header(acme, "key", hosts=hosts, header="X-Key", value="s3cret", **by)
    group = groups.make("acme", "finance", **by)
    starts_at = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
    terms = {"starts_at": starts_at, "ends_at": starts_at + timedelta(days=20_000)}
    confirm(groups.add(group, alice, **terms, in_place_of=bob, **by), otto_user)
    two = {"verdict": "ask", "seats": {"finance": 1, "approvers": 1}}
    written = [{"when": {"tool": "pay", "amount": {"at_least": "50 EUR"}}, "then": two}]
    draft = rules.edit("acme", written, seen="", by=by["by"])
    confirm(rules.activate("acme", seen=draft.sha256, **by), otto_user)
    return acme


def faults_on(answer):
    return re.findall(r'<p class="fault"[^>]*>(.*?)</p>', answer.content.decode(), re.S)


def skill(agent):
    return {
        "agent": agent.pk,
        "name": "Reads transcripts",
        "slug": "transcripts",
        "tags": "a,b",
        "input_schema": '{"type": "object"}',
        "max_concurrency": "3",
        **span("timeout", 2, 3600),
        **span("lease", 90, 1),
        **span("question_ttl", 1.5, 60),
        "max_attempts": "3",
        "required_scope": "transcripts:read",
        "open_to": "globex",
        "is_active": "on",
    }


def span(name, number, unit):
    return {f"{name}_0": str(number), f"{name}_1": str(unit)}


def confirm(waiting, operator):
    if waiting is not None:
        four_eyes.confirm(waiting, seen=waiting.sha256, by=principal_of(operator), via="web")


def test_applied_to_where_it_comes_from_it_changes_nothing(clicked, apply):
    events = Event.objects.count()

    said = apply(exported(), "-v2")

    assert {line[0] for line in said.splitlines()} == {"=", "N"}, said
    assert kinds_since(events) == []


def test_applied_as_another_tenant_its_export_is_the_same(clicked, apply, monkeypatch):
    monkeypatch.setenv("KEY", "s3cret")
    first = exported("acme")
    assert "s3cret" not in first
    other = first.replace("tenant: acme", "tenant: umbrella")

    named = other.replace("- c.example:8443\n", "- c.example:8443\nsecret: {env: KEY}\n")
    said = apply(named)

    assert "!" not in said, said
    assert exported("umbrella") == other
    assert exported("acme") == first
    assert Skill.objects.get(tenant="umbrella").lease == timedelta(seconds=90)
    assert AgentToken.objects.filter(agent__tenant="umbrella").count() == 3
    assert Owner.objects.get(tenant="umbrella").webhook_secret.startswith("whsec_")
    call_command("verify_ledger", any_key=True, stdout=StringIO())


def test_a_dry_run_of_it_leaves_every_table_as_it_was(clicked, apply):
    before = rows()
    other = exported("acme").replace("tenant: acme", "tenant: umbrella")
    changed = exported("acme").replace("review_percent: 25", "review_percent: 30")

    assert "+ rules umbrella" in apply(other, "--dry-run")
    said = apply(changed, "--dry-run", "--prune")
    assert "~ agent acme/helpdesk-agent: review_percent 25 → 30\n" in said

    assert rows() == before
    assert Tenant.objects.count() == 1


def rows():
    """How many there are in each table."""
    with connection.cursor() as cursor:
        return {
            table: count(cursor, table) for table in connection.introspection.table_names(cursor)
        }


def count(cursor, table):
    cursor.execute(f'SELECT count(*) FROM "{table}"')
    return cursor.fetchone()[0]
