"""The ledger admin at size, at its borders, and what it keeps to itself."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client, RequestFactory
from django.urls import reverse

from approvals.models import Membership, Role
from ledger import execution
from ledger.admin import base as ledger_admin
from ledger.models import AgentToken, Delivery, Event, IdempotencyKey, Tenant, Transaction
from ledger.states import State
from ledger.transactions import coordinator

MODELS = [model for model in admin.site._registry if model._meta.app_label == "ledger"]
LIST = "admin:ledger_transaction_changelist"


def staff(user, *app_labels):
    user.is_staff = True
    user.save()
    user.user_permissions.set(Permission.objects.filter(content_type__app_label__in=app_labels))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def as_olga(olga_user):
    return staff(olga_user, "ledger")


@pytest.fixture
def as_looker(olga_user):
    """An operator who was given the right to look, and no other."""
    client = staff(olga_user)
    olga_user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    return client


def found(client, word):
    """The ids that a search shows."""
    page = client.get(reverse(LIST), {"q": word}).content.decode()
    return set(re.findall(r"/admin/ledger/transaction/([0-9a-f-]{36})/change/", page))


# Searching


def test_search_finds_by_every_name_a_transaction_has(as_olga, approved, as_helpdesk):
    row = approved()
    execution.commit(row.pk)
    row.refresh_from_db()
    Transaction.objects.filter(pk=row.pk).update(trace_id="4bf92f3577b34da6a3ce929d0e0e4736")
    proposed = as_helpdesk.propose(key="a key of two words", run_id="run-7").json()

    for word in (
        str(row.pk),
        row.pk.hex,
        str(row.pk).upper(),
        str(row.pk)[:23],
        row.short_id,
        row.receipt,
        row.operation_key,
        f"  {row.receipt} ",
        "4bf92f3577b34da6a3ce929d0e0e4736",
    ):
        assert found(as_olga, word) >= {str(row.pk)}, word
    assert found(as_olga, row.receipt) == {str(row.pk)}
    for word in ("a key of two words", "run-7"):
        assert found(as_olga, word) == {proposed["transaction_id"]}, word
    for word in ("nothing", "%", "_", "\x00", "'; --", "0" * 300):
        assert found(as_olga, word) <= {str(row.pk), proposed["transaction_id"]}
    assert found(as_olga, "%") == set()


def test_search_finds_an_operation_that_was_rejected(as_olga, a_payment, alice):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    execution.roll_back(row.pk)

    assert Transaction.objects.get().state == State.ABORTED
    assert found(as_olga, row.operation_key) == {str(row.pk)}


def test_search_shows_nothing_of_another_tenant(as_olga, globex, a_transaction):
    row = a_transaction(tenant="globex")

    for word in (str(row.pk), row.short_id, row.operation_key):
        assert found(as_olga, word) == set()


def test_a_cancel_that_came_before_its_prepare_is_listed(as_olga, as_helpdesk):
    as_helpdesk.post("/transactions/cancel", {"idempotency_key": "early"})
    listed = as_olga.get(reverse("admin:ledger_idempotencykey_changelist"), {"q": "early"})

    assert IdempotencyKey.objects.get().transaction is None
    assert "1 idempotency key" in " ".join(listed.content.decode().split())


# Size

FILL = """
    INSERT INTO ledger_transaction (
        id, tenant, state, proposed_by, proposed_by_name, stated_reason, run_id, step_id, trace_id,
        traceparent, tool, owner_service, risk_level, required_approver, consequence_level, quorum,
        payload, arguments, input_hash, operation_key, action_summary, warnings, currency, held,
        intent_digest, created_at, expires_at, retain_until, fencing_token, attempts, receipt,
        receipt_url, error, ending, ending_reason, compensation_receipt)
    SELECT ('01a1' || lpad(to_hex(n), 8, '0') || '7000a000' || right(md5(n::text), 12))::uuid,
        CASE WHEN n %% 1000 = 7 THEN 'globex' ELSE 'acme' END,
        CASE WHEN n %% 50 = 1 THEN 'aborted' ELSE 'committed' END,
        'agent:acme/helpdesk', 'Helpdesk', '', 'run-' || n / 3, '', md5(n::text), '', 'pay',
        'payments', 'LOW', 'HUMAN', 'REVERSIBLE', 1, '{}', '{}', '', 'pay:acme:' || n, 'Pay ' || n,
        '[]', '', '{}', '', now(), now(), now(), 1, 1, 'receipt-' || n, '', '', '', '', ''
    FROM generate_series(1, %s) n;
    INSERT INTO ledger_idempotencykey (
        agent, route, key, payload_hash, transaction_id, status, answer, created_at)
    SELECT 'agent:acme/helpdesk', 'prepare', 'key-' || run_id || trace_id, '', id, 201, '', now()
    FROM ledger_transaction
"""


@pytest.fixture
def many(acme, globex, helpdesk):
    """Enough rows for PostgreSQL to mind whether there is an index."""
    with connection.cursor() as cursor:
        for statement in FILL.split(";"):
            cursor.execute(statement, [20_000] if "%s" in statement else None)
        cursor.execute("ANALYZE ledger_transaction")
        cursor.execute("ANALYZE ledger_idempotencykey")
    return Transaction.objects.order_by("pk")


def plans_of(client, address, **query):
    """How PostgreSQL answers each question that a page asks, as text."""
    asked = []

    def listen(execute, sql, params, many, context):
        if sql.startswith("SELECT"):
            asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(listen):
        assert client.get(reverse(address), query).status_code == 200
    with connection.cursor() as cursor:
        for sql, params in asked:
            cursor.execute(f"EXPLAIN {sql}", params)
            yield "\n".join(line for (line,) in cursor.fetchall())


QUERIES = [
    {},
    {"p": "2"},
    {"state__exact": "in_doubt"},
    {"state__exact": "prepared"},
    {"state__exact": "failed"},
    {"tool": "fly"},
    {"q": "receipt-77"},
    {"q": "run-77"},
    {"q": "pay:acme:77"},
    {"q": "key-77"},
    {"q": "0123456789abcdef0123456789abcdef"},
    {"q": "01a10000-004d-7000"},
]


@pytest.mark.slow
@pytest.mark.parametrize("tenants", [["acme"], ["globex"], ["acme", "globex"]], ids=str)
def test_no_list_and_no_search_reads_the_whole_table(olga_user, many, tenants, monkeypatch):
    # Smaller than the table, as they are where there are a million rows.
    monkeypatch.setattr(ledger_admin, "COUNTED", 200)
    monkeypatch.setattr(ledger_admin.TenantAdmin, "list_per_page", 10)
    client = staff(olga_user, "ledger")
    olga_user.memberships.all().delete()
    for tenant in Tenant.objects.filter(slug__in=tenants):
        Membership.objects.create(user=olga_user, tenant=tenant, role=Role.OPERATOR)

    whole = {
        str(query): plan
        for query in QUERIES
        for plan in plans_of(client, LIST, **query)
        if re.search("Seq Scan on ledger_(transaction|idempotencykey)", plan)
    }

    assert whole == {}


def test_a_long_list_says_that_there_is_more_and_counts_no_further(
    as_olga, many, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr(ledger_admin, "COUNTED", 1_000)

    with django_assert_max_num_queries(14):
        page = as_olga.get(reverse(LIST)).content.decode()

    assert " ".join(page.split()).count("1,000") == 1
    assert "more than 1,000 transactions" in " ".join(page.split())
    assert "000 results" not in page
    last = as_olga.get(reverse(LIST), {"p": "20"}).content.decode()
    assert last.count('class="field-state_"') == 50


def test_lists_are_planned_for_the_tenant_and_the_hot_path_stays_prepared(as_olga, a_payment):
    a_payment()
    with connection.cursor():
        before = connection.connection.prepare_threshold

    as_olga.get(reverse(LIST))

    assert connection.connection.prepare_threshold == before


# Borders


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_without_tenants_nothing_is_there(model, a_payment, helpdesk):
    a_payment()
    AgentToken.issue(helpdesk, scopes=["propose"])
    request = RequestFactory().get("/")  # no middleware has been at it

    assert not admin.site._registry[model].get_queryset(request).exists()


@pytest.mark.parametrize(
    "name",
    ["transaction", "event", "decision", "idempotencykey", "reading", "checkpoint", "delivery"],
)
def test_truth_is_neither_added_nor_changed_nor_deleted(admin_client, helpdesk, a_payment, name):
    a_payment()
    listed = admin_client.get(reverse(f"admin:ledger_{name}_changelist")).content.decode()

    assert 'value="delete_selected"' not in listed
    assert admin_client.get(reverse(f"admin:ledger_{name}_add")).status_code == 403
    row = next(m for m in MODELS if m._meta.model_name == name)._default_manager.first()
    if row is not None:
        change = reverse(f"admin:ledger_{name}_change", args=[row.pk])
        assert admin_client.get(change).status_code == 200
        assert admin_client.post(change, {}).status_code == 403
        delete = reverse(f"admin:ledger_{name}_delete", args=[row.pk])
        assert admin_client.post(delete, {"post": "yes"}).status_code == 403


def test_every_row_links_to_its_transaction_and_that_to_the_desk(as_olga, as_helpdesk, alice):
    as_helpdesk.propose()
    row = Transaction.objects.get()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    Delivery.objects.create(event=row.events.latest("pk"), channel="webhook")
    address = reverse("admin:ledger_transaction_change", args=[row.pk])

    for name in ("event", "decision", "idempotencykey", "delivery"):
        listed = as_olga.get(reverse(f"admin:ledger_{name}_changelist")).content.decode()
        assert f'<a href="{address}">{row.short_id}</a>' in listed, name
    assert reverse("desk:transaction", args=[row.pk]) in as_olga.get(address).content.decode()


def test_json_is_shown_readable_and_escaped(as_olga, as_helpdesk):
    as_helpdesk.propose(arguments={"reference": "</pre><b>1</b>", "amount": "1.00"})
    event = Event.objects.exclude(principal="system:tests").get()
    row = Transaction.objects.get()

    for name, pk in (("transaction", row.pk), ("event", event.pk)):
        page = as_olga.get(reverse(f"admin:ledger_{name}_change", args=[pk])).content.decode()
        assert '<pre class="json">' in page
        assert "<b>1</b>" not in page
    answer = IdempotencyKey.objects.get()
    page = as_olga.get(reverse("admin:ledger_idempotencykey_change", args=[answer.pk]))
    assert "&quot;intent_digest&quot;: " in page.content.decode()


def test_nothing_in_the_admin_is_inline(as_olga, a_payment, helpdesk):
    row = a_payment()
    pages = [
        reverse("admin:index"),
        reverse(LIST),
        reverse("admin:ledger_transaction_change", args=[row.pk]),
        reverse("desk:agent", args=[helpdesk.pk]),
    ]

    for address in pages:
        answer = as_olga.get(address)
        page = answer.content.decode()
        assert answer.status_code == 200, address
        assert "'unsafe-inline'" not in answer.headers["Content-Security-Policy"]
        assert re.findall(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>", page) == []
        assert re.findall(r"<style|\sstyle=|\son\w+=", page) == [], address


# Acting


def in_doubt(approved, the_world):
    def fail():
        raise ConnectionError("cut")

    the_world.before = [fail]
    row = approved("launch", rocket="r1")
    execution.commit(row.pk)
    return row


def test_who_may_only_look_is_offered_nothing_and_can_do_nothing(
    as_looker, approved, the_world, a_payment
):
    row = in_doubt(approved, the_world)
    page = as_looker.get(reverse("admin:ledger_transaction_change", args=[row.pk]))
    delivery = Delivery.objects.create(
        event=Event.objects.first(), channel="webhook", recipient="x", state="given_up"
    )
    as_looker.post(
        reverse("admin:ledger_delivery_changelist"),
        {"action": "send_again", "_selected_action": [delivery.pk]},
    )

    assert page.status_code == 200
    assert "Settle it on the desk" not in page.content.decode()
    assert Transaction.objects.get(pk=row.pk).state == State.IN_DOUBT
    delivery.refresh_from_db()
    assert delivery.state == "given_up"
