"""The people and things that tests speak of. alice and bob approve, carol is of another tenant."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.test import Client

from approvals import database_roles
from approvals.local import embedded_services
from approvals.models import Membership, Role
from approvals.people import principal_of
from ledger.api.rendering import render_token
from ledger.events import record_change
from ledger.execution import crash_points
from ledger.foundation import doorbell, redis_connections
from ledger.foundation.postgres import sessions
from ledger.limits import rates, refusals, stocks, terms
from ledger.models import Agent, AgentToken, Tenant, Transaction
from ledger.principals import Principal, system
from ledger.sign_off.rules.sets import rules_of
from ledger.transactions import coordinator
from ledger.transactions.coordinator import Proposal
from tests import services, tables
from tests.toolbox.world import World, world

pytest_plugins = ["tests.agents_at_work", "tests.time_limit"]
# What is hashed in a test is read by ordinary processes too: the same algorithm, but quick.
PBKDF2PasswordHasher.iterations = 1
# Static files are looked up when one is asked for, not all of them for each client of a test.
settings.WHITENOISE_AUTOREFRESH = True
# Tests of optional apps, and of the whole product with all of them; the rest passes without.
OF_ALL_APPS = [
    "accessibility",
    "authorization",
    "house",
    "approvals/test_languages.py",
    "approvals/test_sentences.py",
    "ledger/test_encryption.py",
    "operations/test_other_versions.py",
    "test_database_roles.py",
    "test_start_checks.py",
]
TESTS_OF_APPS = {
    "a2a.doors.git_bus": ["a2a/git_bus"],
    "a2a.doors.humanlayer": ["humanlayer", "e2e/test_humanlayer.py", "ledger/test_handed_over.py"],
    "a2a.doors.mcp_server": ["mcp"],
    "approvals.conformance": ["http_tools/test_conformance.py"],
    "approvals.insight": ["approvals/test_insight.py"],
    "approvals.local": ["approvals/test_up.py", "approvals/test_first_start.py"],
    "approvals.oauth": ["oauth"],
    "approvals.scim": ["scim"],
    "approvals.slack": ["slack", "limits/test_fair_desk.py"],
}
LEFT_OUT = [app for app in TESTS_OF_APPS if app not in settings.OPTIONAL_APPS]
collect_ignore = [path for app in LEFT_OUT for path in (*TESTS_OF_APPS[app], *OF_ALL_APPS)]
CHROMIUM = os.environ.get("ASSENT_CHROMIUM") or shutil.which("chromium")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "of_app(name): skipped where the optional app is left out")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """No test begins on a session that ended during an earlier one, or without its app."""
    for mark in item.iter_markers("of_app"):
        if mark.args[0] in LEFT_OUT:
            pytest.skip(f"needs {mark.args[0]}")
    sessions.end_if_lost()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without Chromium the browser's tests are skipped, except in CI, where that is a failure."""
    if CHROMIUM or os.environ.get("CI"):
        return
    skip = pytest.mark.skip(reason="needs Chromium (Debian: apt-get install chromium)")
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def engines() -> None:
    """PostgreSQL and Redis run from here on; the database asks for it itself."""
    services.start_engines()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    engines: None, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """Each xdist worker has its own database."""


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The whole server is thrown away at the end (tests/services.py)."""
    return True


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():
        database_roles.give_rights(embedded_services.APPLICATION, keeps_log=False)
        database_roles.give_rights(embedded_services.LOG, keeps_log=True)
    tables.after_tests_that_commit()


@pytest.fixture(autouse=True)
def _clean_world() -> Iterator[None]:
    world.reset()
    terms.forget()
    rates.forget()
    refusals.forget()
    rules_of.cache_clear()
    for stock in stocks.every.values():
        stock.forget()
    crash_points.hook = lambda name: None
    yield
    world.reset()
    crash_points.hook = lambda name: None


@pytest.fixture(autouse=True, scope="session")
def _patient_with_redis() -> Iterator[None]:
    """On a busy machine Redis may take longer than people should wait; a test that measures the
    product's own limit asks for ``the_limits_of_redis``.
    """
    with redis_answers_within(10):
        yield


@pytest.fixture
def the_limits_of_redis() -> Iterator[None]:
    with redis_answers_within(redis_connections.ANSWER_S):
        yield


@contextmanager
def redis_answers_within(seconds: float) -> Iterator[None]:
    pool = settings.REDIS_POOL
    before = pool.connection_kwargs["socket_timeout"]
    pool.connection_kwargs["socket_timeout"] = seconds
    pool.reset()
    yield
    pool.connection_kwargs["socket_timeout"] = before
    pool.reset()


@pytest.fixture(autouse=True)
def _clean_redis() -> None:
    if services.have_started:
        doorbell.redis().flushdb()


@pytest.fixture
def the_world() -> World:
    return world


def _tenant(slug: str, name: str) -> Tenant:
    # No waiting: tests of the seconds in which an approval can be undone set some.
    defaults = {"name": name, "tools": ["*"], "undo_seconds": 0}
    return Tenant.objects.get_or_create(slug=slug, defaults=defaults)[0]


@pytest.fixture
def acme(db: None) -> Tenant:
    return _tenant("acme", "Acme Travel")


@pytest.fixture
def globex(db: None) -> Tenant:
    return _tenant("globex", "Globex")


@pytest.fixture
def helpdesk(acme: Tenant) -> Agent:
    return Agent.objects.create(tenant=acme, slug="helpdesk", name="Helpdesk agent")


@pytest.fixture
def supervisor(acme: Tenant) -> Agent:
    return Agent.objects.create(tenant=acme, slug="supervisor", name="Supervisor")


@pytest.fixture
def stranger(globex: Tenant) -> Agent:
    return Agent.objects.create(tenant=globex, slug="helpdesk", name="Another helpdesk")


def _person(username: str, name: str, tenant: Tenant, *roles: Role) -> User:
    first, last = name.split()
    user = User.objects.create_user(username, password=username, first_name=first, last_name=last)
    for role in roles:
        Membership.objects.create(user=user, tenant=tenant, role=role)
    seal_rights(user)
    return user


def seal_rights(user: User) -> None:
    """Append the events by which an account has the rights that it was created with."""

    def record(kind: str, tenant: str = "", **details: str) -> None:
        by = system("tests", "Tests")
        record_change(f"user:{user.pk}", kind, tenant=tenant, by=by, via="command", details=details)

    record("user_created")
    for flag in ("staff", "superuser"):
        if getattr(user, f"is_{flag}"):
            record(f"{flag}_granted")
    for membership in user.memberships.all():
        record("role_granted", membership.tenant_id, role=membership.role)


def seal_approver(person: Principal, tenant: str = "acme") -> None:
    """As ``seal_rights``, for an approver who has no account."""
    by = {"by": system("tests", "Tests"), "via": "command"}
    record_change(str(person), "user_created", tenant="", **by)
    record_change(str(person), "role_granted", tenant=tenant, details={"role": "approver"}, **by)


def _of_acme(name: str, role: Role) -> Any:
    """A fixture; it has the name that it is assigned to."""

    @pytest.fixture
    def user(acme: Tenant) -> User:
        return _person(name.split()[0].lower(), name, acme, role)

    return user


alice_user = _of_acme("Alice Moreau", Role.APPROVER)
bob_user = _of_acme("Bob Tanaka", Role.APPROVER)
olga_user = _of_acme("Olga Novak", Role.OPERATOR)
otto_user = _of_acme("Otto Lang", Role.OPERATOR)
vera_user = _of_acme("Vera Lind", Role.VIEWER)


@pytest.fixture
def carol_user(globex: Tenant) -> User:
    return _person("carol", "Carol Diaz", globex, Role.APPROVER)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def as_alice(alice_user: User) -> Client:
    return signed_in(alice_user)


@pytest.fixture
def as_bob(bob_user: User) -> Client:
    return signed_in(bob_user)


@pytest.fixture
def as_olga(olga_user: User) -> Client:
    return signed_in(olga_user)


@pytest.fixture
def as_otto(otto_user: User) -> Client:
    return signed_in(otto_user)


@pytest.fixture
def as_vera(vera_user: User) -> Client:
    return signed_in(vera_user)


@pytest.fixture
def as_carol(carol_user: User) -> Client:
    return signed_in(carol_user)


@pytest.fixture
def alice(alice_user: User) -> Principal:
    return principal_of(alice_user)


@pytest.fixture
def bob(bob_user: User) -> Principal:
    return principal_of(bob_user)


@pytest.fixture
def dora() -> Principal:
    return Principal("user", "dora", "Dora Klein")


class AgentClient:
    """An agent with a bearer token, speaking REST."""

    def __init__(self, agent: Agent, scopes: list[str]) -> None:
        self.token_row, self.token = AgentToken.issue(agent, scopes=scopes)
        self.agent = agent
        self.http = Client(raise_request_exception=True)

    def get(self, path: str, **headers: str) -> Any:
        return self.http.get(f"/api/v1{path}", headers=self._headers(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.http.post(
            f"/api/v1{path}",
            {} if body is None else body,
            content_type="application/json",
            headers=self._headers(headers),
        )

    def propose(self, tool: str = "pay", key: str | None = None, **body: Any) -> Any:
        body.setdefault("arguments", {"reference": uuid4().hex, "amount": "48.20"})
        return self.post(
            "/transactions", {"tool": tool, **body}, idempotency_key=key or uuid4().hex
        )

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return {"Authorization": f"Bearer {self.token}", **named}


@pytest.fixture
def agent_client() -> Callable[..., AgentClient]:
    return lambda agent, scopes=("propose",): AgentClient(agent, list(scopes))


@pytest.fixture
def as_helpdesk(helpdesk: Agent, agent_client: Callable[..., AgentClient]) -> AgentClient:
    return agent_client(helpdesk)


Maker = Callable[..., Transaction]
_numbers = itertools.count(1)


def propose(
    tool: str = "pay", *, tenant: str = "acme", agent: str = "helpdesk", **arguments: Any
) -> Transaction:
    """A prepared transaction, by the front door."""
    if tool == "pay":
        arguments = {"reference": f"order-{next(_numbers)}", "amount": "48.20"} | arguments
    by = Principal("agent", f"{tenant}/{agent}", "Helpdesk agent")
    answer = coordinator.prepare(
        Proposal(tool, arguments),
        by=by,
        tenant=tenant,
        key=uuid4().hex,
        via="api",
        render=render_token,
    )
    return Transaction.objects.get(pk=answer.transaction_id)


@pytest.fixture
def a_payment(acme: Tenant) -> Maker:
    return lambda **arguments: propose("pay", **arguments)


@pytest.fixture
def a_transaction(acme: Tenant) -> Maker:
    return propose


@pytest.fixture
def approved(a_transaction: Maker, alice: Principal, bob: Principal) -> Maker:
    """A transaction that is signed off, and that no worker has seen yet."""

    def make(tool: str = "pay", **arguments: Any) -> Transaction:
        row = a_transaction(tool, **arguments)
        for approver in (alice, bob)[: row.quorum]:
            row = coordinator.approve(row.pk, digest=row.intent_digest, by=approver, via="web")
        return row

    return make
