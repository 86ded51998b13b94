"""The ledger admin at size, at its borders, and what it keeps to itself."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from approvals.models import Membership, Role
from approvals.people import principal_of
from ledger import execution
from ledger.admin import base as ledger_admin
from ledger.agents import enrolment
from ledger.agents.callers import note_use
from ledger.models import Agent, AgentToken, Delivery, Event, IdempotencyKey, Tenant, Transaction
from ledger.principals import Surface
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
    assert last.count('class="field-now"') == 50


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
        reverse("admin:ledger_agenttoken_add"),
        reverse("admin:ledger_agent_change", args=[helpdesk.pk]),
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


# Agents and their tokens


def test_an_operator_says_who_keeps_a_supervisor_and_how_much_is_reviewed(
    as_olga, bob_user, helpdesk
):
    address = reverse("admin:ledger_agent_change", args=[helpdesk.pk])
    data = {"name": "Helpdesk agent", "is_active": "on", "review_percent": "25"}

    refused = as_olga.post(address, {**data, "kept_by": "Olga"})
    wide = str(bob_user.pk).translate({ord("0") + n: ord("\uff10") + n for n in range(10)})
    not_ascii = as_olga.post(address, {**data, "kept_by": f"user:{wide}"})
    too_much = as_olga.post(address, {**data, "review_percent": "101"})
    as_olga.post(address, {**data, "kept_by": f" user:00{bob_user.pk}"})
    as_olga.post(address, {**data, "kept_by": f"user:{bob_user.pk}", "review_percent": ""})

    assert "Name a person by the number" in refused.content.decode()
    assert "Name a person by the number" in not_ascii.content.decode()
    assert "less than or equal to 100" in too_much.content.decode()
    helpdesk.refresh_from_db()
    assert (helpdesk.kept_by, helpdesk.review_percent) == (f"user:{bob_user.pk}", 25)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"kept_by": "", "review_percent": 10}, {"kept_by": "own", "review_percent": "10"}),
        ({"kept_by": "own", "review_percent": 10}, {"kept_by": "", "review_percent": "10"}),
        ({"kept_by": "own", "review_percent": 10}, {"kept_by": "own", "review_percent": "0"}),
    ],
)
def test_an_operator_changes_neither_keeper_nor_review_of_an_agent_that_is_theirs(
    as_olga, olga_user, helpdesk, before, after
):
    own = {"own": f"user:{olga_user.pk}", "": ""}
    before = before | {"kept_by": own[before["kept_by"]]}
    type(helpdesk).objects.filter(pk=helpdesk.pk).update(**before)
    address = reverse("admin:ledger_agent_change", args=[helpdesk.pk])
    data = {"name": "Helpdesk agent", "is_active": "on", **after}

    answer = as_olga.post(address, data | {"kept_by": own[after["kept_by"]]})

    assert "another operator has to change" in answer.content.decode()
    helpdesk.refresh_from_db()
    assert before == {"kept_by": helpdesk.kept_by, "review_percent": helpdesk.review_percent}


def test_an_agent_with_a_webhook_gets_a_secret_that_is_shown_once(as_olga, helpdesk):
    address = reverse("admin:ledger_agent_change", args=[helpdesk.pk])
    data = {"name": "Helpdesk agent", "is_active": "on", "webhook_url": "https://hook.example/a"}

    page = as_olga.post(address, data, follow=True).content.decode()
    helpdesk.refresh_from_db()
    again = as_olga.get(address).content.decode()

    assert helpdesk.webhook_secret.startswith("whsec_")
    assert helpdesk.webhook_secret in page.replace("&#x3D;", "=").replace("&#43;", "+")
    assert helpdesk.webhook_secret not in again
    before = helpdesk.webhook_secret
    as_olga.post(address, data)
    helpdesk.refresh_from_db()
    assert helpdesk.webhook_secret == before
    as_olga.post(
        reverse("admin:ledger_agent_changelist"),
        {"action": "renew_secret", "_selected_action": [helpdesk.pk]},
    )
    helpdesk.refresh_from_db()
    assert helpdesk.webhook_secret not in {"", before}


@pytest.mark.parametrize("url", ["ftp://hook.example/", "https://me:secret@hook.example/"])
def test_a_webhook_that_cannot_work_is_refused_in_the_form(as_olga, helpdesk, url):
    answer = as_olga.post(
        reverse("admin:ledger_agent_change", args=[helpdesk.pk]),
        {"name": "Helpdesk agent", "webhook_url": url},
    )

    assert answer.status_code == 200
    helpdesk.refresh_from_db()
    assert helpdesk.webhook_url == ""


def test_agents_and_tokens_are_made_for_ones_own_tenants_only(as_olga, stranger):
    form = {"tenant": "globex", "slug": "spy", "name": "Spy"}
    as_olga.post(reverse("admin:ledger_agent_add"), form)
    as_olga.post(
        reverse("admin:ledger_agenttoken_add"), {"agent": stranger.pk, "scopes": ["propose"]}
    )

    assert not Agent.objects.filter(slug="spy").exists()
    assert not AgentToken.objects.exists()


def test_a_token_that_would_have_expired_already_is_not_issued(as_olga, helpdesk):
    data = {
        "agent": helpdesk.pk,
        "scopes": ["propose"],
        "expires_at_0": "2020-01-01",
        "expires_at_1": "00:00:00",
    }

    answer = as_olga.post(reverse("admin:ledger_agenttoken_add"), data)

    assert "It would have expired already." in answer.content.decode()
    assert not AgentToken.objects.exists()


def test_a_rotated_token_lives_as_long_as_the_old_one_was_meant_to(as_olga, helpdesk):
    a_day_ago = timezone.now() - timedelta(days=1)
    old, _ = AgentToken.issue(
        helpdesk, scopes=["propose"], expires_at=a_day_ago + timedelta(days=30)
    )
    AgentToken.objects.filter(pk=old.pk).update(created_at=a_day_ago)
    rotate = {"action": "rotate", "confirmed": "yes", "_selected_action": [old.pk]}

    as_olga.post(reverse("admin:ledger_agenttoken_changelist"), rotate)
    as_olga.post(reverse("admin:ledger_agenttoken_changelist"), rotate)  # is revoked already

    (new,) = AgentToken.objects.exclude(pk=old.pk)
    assert abs(new.expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
    assert new.scopes == ["propose"]


def test_a_revoked_token_is_refused_at_once(as_olga, as_helpdesk):
    assert as_helpdesk.get("/transactions").status_code == 200

    as_olga.post(
        reverse("admin:ledger_agenttoken_changelist"),
        {"action": "revoke", "confirmed": "yes", "_selected_action": [as_helpdesk.token_row.pk]},
    )

    assert as_helpdesk.get("/transactions").status_code == 401


@pytest.mark.parametrize("action", ["rotate", "revoke"])
def test_a_token_stays_until_the_page_that_says_what_stops_is_confirmed(
    as_olga, as_helpdesk, action
):
    page = as_olga.post(
        reverse("admin:ledger_agenttoken_changelist"),
        {"action": action, "_selected_action": [as_helpdesk.token_row.pk]},
    )

    assert "stops working" in page.content.decode()
    assert as_helpdesk.get("/transactions").status_code == 200


def test_a_token_names_who_issued_it_and_its_last_use_to_the_hour(as_olga, helpdesk, olga_user):
    olga = principal_of(olga_user)
    row, _ = enrolment.issue(helpdesk, scopes=["propose"], by=olga, via=Surface.ADMIN)
    address = reverse("admin:ledger_agenttoken_change", args=[row.pk])

    note_use(row.token_hash)
    row.refresh_from_db()
    used_at = row.last_used_at
    note_use(row.token_hash)
    row.refresh_from_db()

    assert used_at is not None
    assert row.last_used_at == used_at
    assert olga.name in as_olga.get(address).content.decode().partition("<main")[2]


# People


@pytest.fixture
def as_keeper(olga_user):
    """Keeps the people of acme, and is no superuser."""
    return staff(olga_user, "auth", "approvals")


def person_form(user, **changes):
    inline = {"memberships-TOTAL_FORMS": "1", "memberships-INITIAL_FORMS": "0"}
    joined = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    return {"username": user.username, "is_active": "on", **joined, **inline, **changes}


def test_people_of_other_tenants_and_superusers_are_out_of_reach(
    as_keeper, alice_user, carol_user, acme, globex
):
    root = User.objects.create_superuser("root", password="root")
    both = User.objects.create_user("both", password="both")
    for tenant in (acme, globex):
        Membership.objects.create(user=both, tenant=tenant, role=Role.VIEWER)
    listed = as_keeper.get(reverse("admin:auth_user_changelist")).content.decode()

    assert "alice" in listed
    for person in (root, carol_user, both):
        address = reverse("admin:auth_user_password_change", args=[person.pk])
        assert f"/user/{person.pk}/" not in listed
        assert as_keeper.get(address).status_code in {302, 404}


def test_a_keeper_gives_roles_in_their_own_tenants_only(as_keeper, alice_user, acme, globex):
    address = reverse("admin:auth_user_change", args=[alice_user.pk])
    page = as_keeper.get(address).content.decode()
    own = alice_user.memberships.get()
    kept = {
        "memberships-TOTAL_FORMS": "2",
        "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": own.pk,
        "memberships-0-user": alice_user.pk,
        "memberships-0-tenant": "acme",
        "memberships-0-role": "approver",
        "memberships-1-user": alice_user.pk,
        "memberships-1-role": "viewer",  # an operator is made by two
    }

    abroad = as_keeper.post(
        address, person_form(alice_user, **kept, **{"memberships-1-tenant": "globex"})
    )
    assert "Select a valid choice" in abroad.content.decode()
    as_keeper.post(
        address,
        person_form(
            alice_user, **kept, **{"memberships-1-tenant": "acme"}, is_superuser="on", is_staff="on"
        ),
    )

    alice_user.refresh_from_db()
    assert 'value="globex"' not in page
    assert sorted(alice_user.memberships.values_list("tenant", "role")) == [
        ("acme", "approver"),
        ("acme", "viewer"),
    ]
    assert (alice_user.is_superuser, alice_user.is_staff) == (False, False)


def test_a_keeper_adds_people_with_a_role(as_keeper):
    new = {
        "username": "dora",
        "password1": "Tr0ub4dor-and-3",
        "password2": "Tr0ub4dor-and-3",
        "usable_password": "true",
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "0",
    }
    address = reverse("admin:auth_user_add")

    assert as_keeper.post(address, new).status_code == 200
    assert not User.objects.filter(username="dora").exists()
    as_keeper.post(address, {**new, "memberships-0-tenant": "acme", "memberships-0-role": "viewer"})

    assert Membership.objects.get(user__username="dora").role == Role.VIEWER
