"""``manage.py demo``: ``up``, with a sandbox of the outside world and agents at work."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.utils import timezone

from a2a import submissions
from a2a.models import Skill
from a2a.submissions import Submission
from approvals import processes
from approvals.desk import Viewer, inbox
from approvals.http.middleware import roles_of, tenants_of
from approvals.local import Program, embedded_services, old_folder
from approvals.local.embedded_services import shown
from approvals.local.management.commands import up
from approvals.local.management.commands.up import ROOT, Ports, has_bus, program
from approvals.models import Notice
from approvals.people import accounts, principal_of
from approvals.processes import environment_of, without_secrets
from ledger.agents import Caller, enrolment
from ledger.events import command_principal
from ledger.models import Agent, Scope, Tenant, Transaction
from ledger.principals import Surface
from ledger.tools import manifests, registrations

PEOPLE = {
    "alice": ("Alice Moreau", "approver", "a manager"),
    "bob": ("Bob Tanaka", "approver", "a second manager"),
    "olga": ("Olga Novak", "operator", "an operator, with the ledger admin"),
    "omar": ("Omar Haddad", "operator", "a second operator, to settle what takes two"),
}
TOKEN_FILE = embedded_services.HOME / "demo_agent_token"
WORKER_TOKEN_FILE = embedded_services.HOME / "demo_worker_token"
SUPERVISOR_TOKEN_FILE = embedded_services.HOME / "demo_supervisor_token"
BOOKKEEPER_TOKEN_FILE = embedded_services.HOME / "demo_bookkeeper_token"
# A tool over HTTP: a process that shares nothing with Assent but two addresses.
HTTP_TOOL = ROOT / "examples" / "http_tool"
LOGS = embedded_services.HOME / "log"
# The git bus: its repository, and the clone of a participant that is a shell script.
BUS, PARTNER = embedded_services.HOME / "bus.git", embedded_services.HOME / "partner"
SCRIPTS = ROOT / "examples" / "git_participant"
PARTNER_NAME = "partner@partner.example"


class Command(up.Command):
    help = "As `up`, with a sandbox of the outside world, demo people and an agent at work."
    name = "demo"

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--greet",
            action="store_true",
            help="only propose the short-lived refund when somebody signs in",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["greet"]:
            propose_when_somebody_comes()
        else:
            super().handle(*args, **options)

    def leave_old_folder(self) -> None:
        """Offer to set the folder aside, where somebody can answer."""
        if not old_folder.is_to_be_set_aside():
            super().leave_old_folder()
        self.stdout.write(f"The data of before is in {old_folder.set_aside().name}/.")
        old_folder.start_anew()

    def environment(self, ports: Ports) -> dict[str, str]:
        return super().environment(ports) | {
            "ASSENT_DEBUG": "1",
            "ASSENT_DEMO": "1",
            "ASSENT_TOOL_APPS": "examples.tools",
            "ASSENT_SANDBOX_URL": f"http://127.0.0.1:{ports.sandbox}",
            "ASSENT_BILLING_URL": f"http://127.0.0.1:{ports.billing}",
            "ASSENT_WEBHOOK_NETWORKS": os.environ.get(
                "ASSENT_WEBHOOK_NETWORKS", "127.0.0.0/8,::1/128"
            ),
            "ASSENT_URL": f"http://localhost:{ports.web}",
            "ASSENT_GIT_BUS_LOCAL": "1",
            "ASSENT_GIT_BUS_FOLDER": str(embedded_services.HOME / "buses"),
        }

    def stages(
        self, ports: Ports, workers: int, environment: dict[str, str]
    ) -> list[list[Program]]:
        bare = without_secrets(environment)
        sandbox = ["-m", "examples.sandbox", "--port", str(ports.sandbox)]
        data = str(embedded_services.HOME / "sandbox.sqlite3")
        consolidation = "examples/consolidation_worker.py"
        agent, worker = ("--token-file", str(TOKEN_FILE)), ("--token-file", str(WORKER_TOKEN_FILE))
        supervise = ["examples/supervisor.py", "--policy", "examples/policies/goodwill.md"]
        supervise += ["--by-rules", "--token-file", str(SUPERVISOR_TOKEN_FILE)]
        billing = [str(HTTP_TOOL / "tool.py"), str(ports.billing), bare["ASSENT_URL"]]
        billing += [str(embedded_services.HOME / "billing.json")]
        bookkeeper = ["examples/mcp_client.py", "forever"]
        bookkeeper += ["--token-file", str(BOOKKEEPER_TOKEN_FILE)]
        forever = ("/bin/sh", str(SCRIPTS / "forever.sh"), str(PARTNER), "partner_agent")
        LOGS.mkdir(exist_ok=True)
        optional = [program("bookkeeper", bookkeeper, bare)] if has_mcp_server() else []
        optional += [Program("partner", forever, bare, ROOT)] if has_bus() else []
        stages = [
            [
                program("sandbox", [*sandbox, "--data", data], bare),
                program("billing", billing, bare),
            ],
            *super().stages(ports, workers, environment),
            [
                program("agent", ["examples/agent.py", "forever", *agent], bare),
                program(
                    "greeter",
                    ["manage.py", "demo", "--greet"],
                    environment_of(processes.WEB, environment),
                ),
                program("archivist", [consolidation, *worker], bare),
                program("orchestrator", [consolidation, "keep-submitting", *agent], bare),
                program("supervisor", supervise, bare),
                *optional,
            ],
        ]
        return [_into_files(stage) for stage in stages]

    def prepare(self) -> None:
        make_demo_data(TOKEN_FILE)
        make_demo_worker(WORKER_TOKEN_FILE)
        make_demo_supervisor(SUPERVISOR_TOKEN_FILE)
        register_http_tool(os.environ["ASSENT_BILLING_URL"])
        if has_mcp_server():
            make_demo_bookkeeper(BOOKKEEPER_TOKEN_FILE)
        if has_bus():
            make_demo_bus(BUS, PARTNER)

    def banner(self) -> str:
        address = settings.PUBLIC_URL
        logins = "\n".join(
            f"    {username:<6} demo-{username:<6} {who}"
            for username, (_, _, who) in PEOPLE.items()
        )
        bus = f"  The git bus   git -C {PARTNER} log --oneline\n" if has_bus() else ""
        return (
            f"\n  Ledger admin  {address}/admin/\n"
            f"  REST docs     {address}/api/v1/docs\n"
            f"  The sandbox   {os.environ['ASSENT_SANDBOX_URL']}\n"
            f"  HTTP tool     {os.environ['ASSENT_BILLING_URL']}\n"
            f"{bus}"
            f"  What happens  tail -f {shown(LOGS)}/*.log\n"
            f"  Ctrl-C stops everything. The data stays in {shown(embedded_services.HOME)}/ "
            "(delete it to start afresh).\n\n"
            f"    user   password    who\n{logins}\n\n"
            f"  Open {address}/ and sign in as alice.\n"
            f"  {first_step()}\n"
        )


def first_step() -> str:
    """Name a request that waits: the first on the list of alice, if she has a minute for it."""
    if not Transaction.objects.exists():
        # The agent proposes it first.
        return "Then approve the refund to Ana Ruiz, and watch its receipt appear."
    alice, now = User.objects.get(username="alice"), timezone.now()
    viewer = Viewer(str(principal_of(alice)), roles_of(alice), tenants_of(alice))
    for entry in inbox.waiting(viewer, inbox.Filters(), now).entries:
        is_hers = entry.tx is not None and entry.group == "mine"
        if is_hers and entry.expires_at > now + timedelta(minutes=1):
            return f"Then decide this: {entry.row.headline}"
    return "Then approve what comes next: the agent proposes something every few minutes."


def _into_files(programs: list[Program]) -> list[Program]:
    """Write what they print into files, so that addresses and logins stay on the screen."""
    return [replace(each, log=LOGS / f"{each.name}.log") for each in programs]


def has_mcp_server() -> bool:
    return apps.is_installed("a2a.doors.mcp_server")


def propose_when_somebody_comes() -> None:
    """The short-lived refund, as soon as somebody has signed in: they can watch it lapse."""
    began_at = timezone.now()
    while not User.objects.filter(username__in=PEOPLE, last_login__gt=began_at).exists():
        time.sleep(1)
    command = [sys.executable, "examples/agent.py", "short", "--token-file", str(TOKEN_FILE)]
    subprocess.run(command, cwd=ROOT, check=False)
    signal.pause()  # once for each start of the demo


def make_demo_data(token_file: Path) -> None:
    """People, roles and two agents, once. Passwords are public: the demo listens on loopback."""
    assert settings.DEBUG, "demo data belongs to the demo only"
    by = _by_command()
    # Nobody waits a day to try how a passkey signs.
    acme = enrolment.tenant_named(
        "acme", "Acme Travel", signing_key_hours=0, own_agent_tools=["*"], **by
    )
    enrolment.allow_tools(acme, ["*"], **by)
    for username, (name, role, _who) in PEOPLE.items():
        first, last = name.split()
        user, is_new = User.objects.get_or_create(
            username=username, defaults={"first_name": first, "last_name": last}
        )
        if is_new:
            accounts.opened(user, **by)
            accounts.set_password(user, f"demo-{username}", **by)
        accounts.give_role(user, "acme", role, **by)
    for operator in User.objects.filter(username__in=["olga", "omar"]):
        accounts.let_into_admin(operator, **by)
    # Nobody has to be told of what made the demo.
    Notice.objects.filter(dismissed_at=None, event__via="command").update(dismissed_at=Now())

    _keep_token(token_file, _agent("helpdesk", "Helpdesk agent"), Scope.PROPOSE, Scope.SUBMIT)


def _by_command() -> dict[str, Any]:
    """The actor and the surface of what the demo makes, as keyword arguments."""
    return {"by": command_principal(), "via": Surface.COMMAND}


def _agent(slug: str, name: str) -> Agent:
    by = _by_command()
    return enrolment.agent_named(enrolment.tenant_named("acme", **by), slug, name, **by)


def make_demo_worker(token_file: Path) -> None:
    """An agent that consolidates transcripts, and asks when they contradict each other."""
    archivist = _agent("archivist", "Archivist")
    transcripts = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    Skill.objects.get_or_create(
        tenant="acme",
        slug="consolidate",
        defaults={
            "agent": archivist,
            "name": "Consolidate transcripts",
            "description": "Reads transcripts, asks where they contradict each other.",
            "input_schema": {
                "type": "object",
                "properties": {"transcripts": transcripts},
                "required": ["transcripts"],
            },
            "output_schema": {"type": "object", "required": ["facts"]},
            "is_retry_safe": True,
        },
    )
    _keep_token(token_file, archivist, Scope.WORK)


def make_demo_bus(repository: Path, clone: Path) -> None:
    """A git bus with a participant that is a shell script; it asks us, and we ask it."""
    from a2a.doors.git_bus.models import BusMethod, GitBus
    from a2a.doors.git_bus.repository import access

    signer = _make_participant(repository, clone)
    partner = _agent("partner", "Partner")
    bus, _ = GitBus.objects.update_or_create(
        agent=partner,
        defaults={
            "url": str(repository),
            "participant": "assent_acme",
            "allowed_signers": f"{PARTNER_NAME} {signer}" if signer else "",
            "strangers": "ask" if signer else "accept",
            "poll_every": timedelta(seconds=3),
        },
    )
    if not bus.signing_key:
        bus.signing_key = access.new_key()
        bus.save(update_fields=["signing_key"])
    words = {"type": "object", "properties": {"text": {"type": "string", "title": "Text"}}}
    Skill.objects.get_or_create(
        tenant="acme",
        slug="count-words",
        defaults={
            "agent": partner,
            "name": "Count words",
            "description": "Done by a shell script, over a git repository.",
            "input_schema": {**words, "required": ["text"]},
        },
    )
    for method, skill, is_ours in (
        ("facts.consolidate", "consolidate", True),
        ("text.count_words", "count-words", False),
    ):
        BusMethod.objects.get_or_create(
            bus=bus, method=method, defaults={"skill": skill, "is_ours": is_ours}
        )
    helpdesk = Agent.objects.get(tenant="acme", slug="helpdesk")
    caller = Caller(helpdesk.principal, "acme", frozenset({Scope.SUBMIT.value}))
    text = Submission(skill="count-words", input={"text": "How many words are these?"})
    submissions.submit(text, caller=caller, via=Surface.COMMAND)


def _make_participant(repository: Path, clone: Path) -> str:
    """The repository and the clone, once; the public key that signs the commits of the clone.

    Empty where git cannot sign.
    """
    from a2a.doors.git_bus.repository import access

    subprocess.run(["/bin/sh", SCRIPTS / "new_bus.sh", repository], check=True)
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", repository, clone], check=True)
    signs = shutil.which("ssh-keygen") is not None
    key = clone.with_suffix(".key")
    if not key.exists():
        key.touch(mode=0o600)
        key.write_text(access.new_key())
    for name, value in (
        ("user.name", "Partner"),
        ("user.email", PARTNER_NAME),
        ("gpg.format", "ssh"),
        ("user.signingkey", str(key)),
        ("commit.gpgsign", "true" if signs else "false"),
    ):
        subprocess.run(["git", "-C", clone, "config", name, value], check=True)
    return access.public_line(key.read_text(), PARTNER_NAME) if signs else ""


def make_demo_supervisor(token_file: Path) -> None:
    """An agent that decides small refunds by a policy. Its rules are fixed; it is not a model."""
    agent = _agent("goodwill", "Goodwill supervisor (rules)")
    if not token_file.exists():
        # Half of its decisions are reviewed, so that there is something to look at.
        agent.review_percent = 50
        agent.save(update_fields=["review_percent"])
        enrolment.was_changed(agent, {"review_percent": [10, 50]}, **_by_command())
        _keep_token(token_file, agent, Scope.DECIDE)


def make_demo_bookkeeper(token_file: Path) -> None:
    """An agent that speaks MCP, and refunds invoices by the tool that runs elsewhere."""
    _keep_token(token_file, _agent("bookkeeper", "Bookkeeper (MCP)"), Scope.PROPOSE)


def register_http_tool(address: str) -> None:
    """The tool of examples/http_tool, at the port that it has this time."""
    content = yaml.safe_load((HTTP_TOOL / "tools.yaml").read_text("utf-8"))
    acme = Tenant.objects.get(slug=content["tenant"])
    for tool in content["tools"]:
        manifest = manifests.read({**tool, "address": address})
        registrations.register(acme, manifest, **_by_command())


def _keep_token(token_file: Path, agent: Agent, *scopes: Scope) -> None:
    """Issue a token, once."""
    if not token_file.exists():
        token = enrolment.issue(agent, scopes=[scope.value for scope in scopes], **_by_command())[1]
        token_file.touch(mode=0o600)
        token_file.write_text(token)
