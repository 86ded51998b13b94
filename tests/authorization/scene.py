"""The callers and the things of the table. ``owner`` proposed and submitted, ``worker`` does it."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from a2a import submissions, tasks
from a2a.doors.git_bus.models import BusRequest, GitBus, Progress
from a2a.doors.humanlayer import contacts
from a2a.doors.humanlayer.calls import bindings, function_calls
from a2a.models import PushConfig, RemoteAgent, Skill
from a2a.submissions import Submission
from a2a.tasks import questions
from approvals.models import Membership, Notice, Role, SavedView, SlackRoute, SlackWorkspace
from approvals.oauth.issuer_tables import Issuer
from approvals.oauth.models import Client as SignInClient, Connection
from approvals.people import principal_of, second_operator
from approvals.people.sign_in import passkeys_of
from ledger import contracts, execution
from ledger.agents import policy_documents
from ledger.agents.callers import Caller
from ledger.contracts.evidence import File
from ledger.events import outbox
from ledger.execution import recording, redemption
from ledger.execution.redemption import Issued
from ledger.models import (
    Agent,
    AgentToken,
    Brake,
    Credential,
    Delivery,
    GroupMember,
    McpUpstream,
    Owner,
    Permit,
    RegisteredTool,
    Review,
    RuleSet,
    Scope,
    Tenant,
    UpstreamTool,
    Watched,
)
from ledger.principals import Principal, system
from ledger.proof.log import checkpoints
from ledger.seals import intents
from ledger.sign_off import grants, groups, rules
from ledger.sign_off.grants import Wanted
from ledger.tools import credentials, manifests, registrations
from ledger.transactions import coordinator
from tests.authenticators import Authenticator
from tests.authorization.table import NO_SCOPE
from tests.conftest import propose
from tests.evidence.conftest import filing_tool
from tests.evidence.files import png
from tests.permits.conftest import register
from tests.signing.conftest import let_sign

MANIFEST: dict[str, Any] = {
    "name": "ship",
    "address": "https://far.example/tools",
    "arguments": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"parcel": {"type": "string"}},
    },
    "contract": {"owner_service": "post", "operation_key": "ship:{tenant}:{parcel}"},
}
POLICY = "1. Furniture is fine.\n"
RETURN_TO = "http://localhost:7777/callback"
RECORDS = bool(os.environ.get("RECORD_AUTHORIZATION"))
HUMANLAYER_CALL = {"call_id": "call-1", "spec": {"fn": "send", "kwargs": {"to": "ann"}}}
HUMANLAYER_CONTACT = {"call_id": "human-1", "spec": {"msg": "Which colour?"}}
AGENTS = ["owner", "worker", "colleague", "stranger"]
PEOPLE = [
    "outsider",
    "nobody",
    "viewer",
    "approver",
    "keeper",  # an approver who keeps the agent that proposed and submitted
    "operator",
    "staff",
    "admin",
    "superuser",
]
# Who is asked at the admin; the others are no staff either.
STAFF = ["approver", "staff", "admin", "superuser"]
COLUMNS = ["anonymous", *AGENTS, *PEOPLE]

FILE = {"raw": "SGVsbG8=", "filename": "hello.txt"}


class Scene:
    """Everything that an address may name, and a client for each caller."""

    def __init__(self) -> None:
        self.acme = Tenant.objects.get_or_create(
            slug="acme", defaults={"name": "Acme", "tools": ["*"]}
        )[0]
        self.globex = Tenant.objects.get_or_create(
            slug="globex", defaults={"name": "Globex", "tools": ["*"]}
        )[0]
        self._clients: dict[str, Client] = {}
        self._agents()
        self._people()
        self._signing_keys()
        self._transactions()
        self._tasks()
        self._changes()
        self._brake()
        self._grant()
        self._connection()
        self._issuer()
        self._rules()
        self._upstream()
        self._tools()
        self._slack()
        checkpoints.make()

    def _upstream(self) -> None:
        """An MCP server with a tool that waits for an operator."""
        upstream = McpUpstream.objects.create(
            tenant=self.acme,
            name="far",
            address="https://far.example/mcp",
            watched=Watched.objects.create(kind="mcp"),
        )
        definition = {"name": "write", "inputSchema": {"type": "object"}}
        self.upstream_tool = UpstreamTool.objects.create(
            upstream=upstream,
            name="write",
            tool="far_write",
            definition=definition,
            sha256=intents.digest_of(definition),
        )

    def _brake(self) -> None:
        """Over a tool that nothing of the scene uses."""
        brake = {"tenant": "acme", "tool": "far_away", "why": "It pays twice."}
        self.brake = Brake.objects.create(**brake, by="user:0", by_name="Somebody")

    def _grant(self) -> None:
        """Of a tool that nothing of the scene uses."""
        times = [{"most": "1", "per": "total"}]
        hour = timedelta(hours=1)
        unused = Wanted("acme", "agent:acme/owner", "far_away", {}, times, hour)
        self.grant = grants.give(unused, by=principal_of(self.people["approver"]), via="web")

    def _connection(self) -> None:
        """A program that the keeper has connected as the agent that they keep."""
        program = SignInClient.objects.create(
            client_id="program",
            name="Program",
            redirect_uris=RETURN_TO,
            client_type=SignInClient.CLIENT_PUBLIC,
            authorization_grant_type=SignInClient.GRANT_AUTHORIZATION_CODE,
        )
        self.connection = Connection.objects.create(
            person=self.people["keeper"],
            agent=self.agents["owner"],
            client=program,
            scopes=["propose"],
            redirect_to=RETURN_TO,
        )

    def _issuer(self) -> None:
        """Of tokens of nobody here."""
        self.issuer = Issuer.objects.create(
            tenant=self.acme, issuer="https://tokens.example", algorithms=["ES256"]
        )

    def _changes(self) -> None:
        viewer, keeper = self.people["viewer"], self.people["admin"]
        self.change = second_operator.ask(
            viewer,
            "role_granted",
            by=principal_of(keeper),
            via="admin",
            tenant="acme",
            details={"role": "approver"},
        )
        self.notice = Notice.objects.create(user=viewer, event=self.event)
        self.view = SavedView.objects.create(user=viewer, place="inbox", name="Own", query="q=a")

    def _rules(self) -> None:
        """A draft, an earlier set, and a group with the approver in it."""
        origin: dict[str, Any] = {"by": principal_of(self.people["admin"]), "via": "web"}
        rule = {"when": {"tool": "nothing"}, "then": "deny"}
        RuleSet.objects.create(tenant="acme", number=1, state="retired", rules=[])
        self.draft = rules.edit("acme", [rule], seen="", by=origin["by"])
        self.group = groups.make("acme", "finance", **origin)
        by_command = {"by": system("tests", "Tests"), "via": "command"}
        span: dict[str, Any] = {"starts_at": timezone.now(), "ends_at": None, "in_place_of": None}
        person = principal_of(self.people["approver"])
        groups.add(self.group, person, **span, **by_command)
        self.member = GroupMember.objects.get()

    def _tools(self) -> None:
        """A tool elsewhere, a change of it and a binding that wait, a credential."""
        origin: dict[str, Any] = {"by": principal_of(self.people["admin"]), "via": "admin"}
        first = manifests.read(MANIFEST)
        registrations.register(self.acme, first, **origin)
        self.tool = RegisteredTool.objects.get(name="ship")
        looser = manifests.read({**MANIFEST, "address": "https://other.example/tools"})
        change = {"in_place_of": first.sha256, **origin}
        self.tool_change = registrations.change(self.acme, looser, **change)
        self.binding = bindings.bind(self.acme, None, "fly", "pay", **origin)
        header = {"hosts": ["far.example"], "header": "Authorization", "value": "x"}
        credentials.set_header(self.acme, "far", **header, **origin)
        self.credential = Credential.objects.get()

    def _slack(self) -> None:
        self.workspace = SlackWorkspace.objects.create(team_id="T1", name="W", bot_user_id="U1")
        self.workspace.tenants.add(self.acme)
        self.route = SlackRoute.objects.create(
            workspace=self.workspace, tenant=self.acme, channel="C1"
        )

    def _agents(self) -> None:
        self.agents = {
            name: Agent.objects.create(
                tenant=self.globex if name == "stranger" else self.acme, slug=name, name=name
            )
            for name in AGENTS
        }
        self.tokens = {
            (name, scope): AgentToken.issue(agent, scopes=[scope] if scope != NO_SCOPE else [])[1]
            for name, agent in self.agents.items()
            for scope in [NO_SCOPE, *Scope.values]
        }

    def _people(self) -> None:
        roles = {
            "outsider": [(self.globex, role) for role in Role.values],
            "nobody": [],
            "viewer": [(self.acme, Role.VIEWER)],
            "approver": [(self.acme, Role.APPROVER)],
            "keeper": [(self.acme, Role.APPROVER)],
            "operator": [(self.acme, Role.OPERATOR)],
            "staff": [(self.acme, Role.VIEWER)],
            "admin": [(self.acme, Role.OPERATOR)],
            "superuser": [],
        }
        self.people = {}
        for name, given in roles.items():
            user = User.objects.create_user(
                name,
                password="a long enough password",
                first_name=name.title(),
                is_staff=name in {"staff", "admin", "superuser"},
                is_superuser=name == "superuser",
            )
            for tenant, role in given:
                Membership.objects.create(user=user, tenant=tenant, role=role)
            self.people[name] = user
        keeper = f"user:{self.people['keeper'].pk}"
        Agent.objects.filter(tenant=self.acme).update(kept_by="user:0")  # of somebody else
        Agent.objects.filter(pk=self.agents["owner"].pk).update(kept_by=keeper)
        # Every right of the admin, and no more: not a superuser, and of one tenant.
        self.people["admin"].user_permissions.set(Permission.objects.all())

    def _signing_keys(self) -> None:
        """Two passkeys of each, of which the first one signs."""
        Tenant.objects.update(signing_key_hours=0)
        operators = self.people["admin"], self.people["operator"]
        for name in ("approver", "viewer"):
            key = Authenticator(name.encode())
            key.add_to(self.people[name])
            let_sign(self.people[name], key, *operators)
            Authenticator(f"another {name}".encode()).add_to(self.people[name])

    def _transactions(self) -> None:
        first = User.objects.create_user("first-approver")
        Membership.objects.create(user=first, tenant=self.acme, role=Role.APPROVER)
        by = Principal("user", str(first.pk), "First")
        self.pending = propose("pay", agent="owner")
        self.evidenced = self._with_a_picture()
        self.supervised = propose("order", agent="owner", item="chair")
        sampled = propose("order", agent="owner", item="sampled")
        Agent.objects.filter(slug="colleague").update(review_percent=100)
        coordinator.approve(
            sampled.pk,
            digest=sampled.intent_digest,
            by=self.agents["colleague"].principal,
            via="api",
        )
        self.review = Review.objects.get()
        policy_documents.keep_policy(
            "acme",
            name="Policy",
            version="1",
            text=POLICY,
            by=self.agents["colleague"].principal,
        )
        self.committed = self._approved(by)
        execution.commit(self.committed.pk)
        self.doubtful = self._approved(by)
        lease = execution.claim(self.doubtful.pk)
        assert lease is not None
        recording.record_doubt(lease, "No answer.")
        owner = self.agents["owner"].principal
        asks = Caller(owner, "acme", frozenset({"propose", "submit"}), tools=(["*"], ["*"]))
        function_calls.create(asks, HUMANLAYER_CALL)
        contacts.create(asks, HUMANLAYER_CONTACT)
        self.event = self.pending.events.get()
        outbox.put_in_outbox(self.event, [("webhook", "1")])
        self.delivery = Delivery.objects.latest("pk")

        self.permitted, self.permit = self._permitted(by)
        self.redeemed, redeemed = self._permitted(by)
        redemption.redeem(redeemed.permit.pk, by="bearer", via="api")

    def _with_a_picture(self) -> Any:
        picture = (File("photo.png", "image/png", png()),)
        with patch.dict(contracts.tools, {"file": filing_tool({"photo": picture})}):
            return propose("file", agent="owner", title="photo")

    def _permitted(self, by: Principal) -> tuple[Any, Issued]:
        """Signed off for the owner to carry out itself, and its permit."""
        register(self.acme, acts_within_s=86_400)
        row = propose("delete_account", agent="owner", account=uuid4().hex)
        row = coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")
        issued = redemption.issue(row.pk, by=self.agents["owner"].principal, via="api")
        Permit.objects.update(expires_at=Now() + timedelta(days=1))  # the table takes a while
        return row, issued

    def passkey(self, name: str) -> Any:
        """The newest of this person, which signs in only."""
        return passkeys_of(self.people[name]).last()

    def approved_just_now(self) -> Any:
        """By the approver, who can still undo that."""
        said = {"digest": self.pending.intent_digest, "by": principal_of(self.people["approver"])}
        return coordinator.approve(self.pending.pk, via="web", undo_seconds=60, **said)

    def _approved(self, by: Principal) -> Any:
        row = propose("pay", agent="owner")
        return coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")

    def _tasks(self) -> None:
        worker = self.agents["worker"]
        schema: dict[str, Any] = {"type": "object"}
        self.skill = Skill.objects.create(
            agent=worker,
            slug="consolidate",
            name="C",
            input_schema=schema,
            lease=timedelta(hours=1),
        )
        Skill.objects.create(agent=worker, slug="translate", name="T", input_schema=schema)
        self.asked = self._claimed_task()
        self.question = questions.ask(
            self.asked.pk,
            agent=worker.principal,
            fencing_token=self.asked.fencing_token,
            text="Which?",
            via="api",
        )
        self.task = self._claimed_task()
        self.waiting = self.fresh_task()
        ended = self.fresh_task()
        self.ended = tasks.cancel(ended.pk, by=self.agents["owner"].principal, via="api")
        self.push = PushConfig.objects.create(
            task=self.task, config_id="push", url="https://example.com/push"
        )
        agent = Agent.objects.create(tenant=self.acme, slug="far", name="Far")
        self.remote = RemoteAgent.objects.create(
            agent=agent,
            url="https://far.example",
            watched=Watched.objects.create(kind="agent_card"),
        )
        self.owning_service = Owner.objects.create(
            tenant=self.acme, service="books", webhook_url="https://hook.example/"
        )
        partner = Agent.objects.create(tenant=self.acme, slug="partner", name="Partner")
        self.bus = GitBus.objects.create(
            agent=partner, url="https://git.example/bus", participant="assent"
        )
        self.bus_request = BusRequest.objects.create(
            bus=self.bus, request_id="r-1", progress=Progress.PROBLEM
        )

    def fresh_task(self) -> Any:
        caller = Caller(self.agents["owner"].principal, "acme", frozenset({Scope.SUBMIT}))
        submission = Submission(skill="consolidate", input={}, parts=[FILE])
        return submissions.submit(submission, caller=caller, via="api").task

    def _claimed_task(self) -> Any:
        self.fresh_task()
        return tasks.claim(self.agents["worker"].principal, skills=[], via="api")

    # --- clients ---------------------------------------------------------------------------

    def person(self, name: str) -> Client:
        if name not in self._clients:
            self._clients[name] = Client(raise_request_exception=False)
            self._clients[name].force_login(self.people[name])
            session = self._clients[name].session
            session["confirmed_at"] = time.time()  # they have lately proven who they are
            session.save()
        return self._clients[name]

    def agent(self, name: str, scope: str) -> Client:
        header = {"Authorization": f"Bearer {self.tokens[name, scope]}"}
        return Client(raise_request_exception=False, headers=header)


def as_json(body: Any) -> dict[str, Any]:
    return {"data": json.dumps(body), "content_type": "application/json"}
