"""On a bus we appear under our own name, and prove by our signature what we did there."""

from __future__ import annotations

import subprocess

import pytest

from a2a import submissions
from a2a.doors.git_bus.models import BusMethod, Strangers
from a2a.doors.git_bus.repository import access
from a2a.models import Skill, Task
from a2a.submissions import Submission
from ledger.agents import Caller
from ledger.models import Agent, Tenant
from ledger.principals import Surface
from tests.agents_at_work import GOOD_INPUT, GOOD_RESULT

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def signing_line(bus) -> str:
    """Let the bus sign; the line that its operator gives to others."""
    bus.row.signing_key = access.new_key()
    bus.row.save(update_fields=["signing_key"])
    return f"{bus.row.our_address} {access.public_line(bus.row.signing_key, '').strip()}"


@pytest.fixture
def two(bus, buses, participant, client_of):
    """Acme does ``consolidate`` for Globex over one bus; both refuse what is not signed."""
    globex = Tenant.objects.create(slug="globex", name="Globex")
    theirs = buses(globex, participant, name="acme")
    Skill.objects.create(agent=theirs.row.agent, slug="their-facts", name="Facts")
    BusMethod.objects.create(
        bus=theirs.row, method="consolidate", skill="their-facts", is_ours=False
    )
    lines = signing_line(bus), signing_line(theirs)
    for each, signers in ((bus, lines[1]), (theirs, lines[0])):
        each.set(strangers=Strangers.REFUSE, allowed_signers=signers)
    return bus, theirs, lines


def ask(theirs) -> Task:
    asker = Agent.objects.create(tenant=theirs.row.agent.tenant, slug="asker", name="Asker")
    caller = Caller(asker.principal, asker.tenant_id, frozenset({"submit"}))
    wanted = Submission(skill="their-facts", input=GOOD_INPUT)
    return submissions.submit(wanted, caller=caller, via=Surface.REST).task


def test_two_that_refuse_what_is_not_signed_work_with_each_other_and_git_log_proves_it(
    two, participant, work, tmp_path
):
    ours, theirs, lines = two
    asked = ask(theirs)
    theirs.turn()
    ours.turn()
    work(Task.objects.get(bus_request__bus=ours.row))
    ours.turn()
    theirs.turn()

    asked.refresh_from_db()
    assert asked.result == GOOD_RESULT
    # The auditor has a clone, and the two lines; nothing else.
    participant.pull()
    signers = tmp_path / "signers"
    signers.write_text("\n".join(lines))
    participant.git("config", "gpg.ssh.allowedSignersFile", str(signers))
    log = participant.git("log", "--reverse", "--format=%G?|%an|%ae|%GS|%s").splitlines()
    request = theirs.sent(asked)
    globex = "Globex|assent_acme@assent.invalid|assent_acme@assent.invalid"
    acme = "Acme Travel|assent_partner@assent.invalid|assent_partner@assent.invalid"
    assert log[1:] == [
        f"G|{globex}|Manifest of assent_acme",
        f"G|{globex}|Submitted {request}",
        f"G|{acme}|Manifest of assent_partner",
        f"G|{acme}|Claimed {request} by assent_partner",
        f"G|{acme}|Processed {request}",
    ]


def test_our_participant_file_and_our_questions_name_us_and_not_the_other_side(bus, participant):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1")
    bus.turn()

    participant.pull()
    assert '"role": "Acme Travel"' in participant.read(".well-known/agents/assent_partner.json")
    asked = bus.request("r-1").admission.questions.get().text
    assert "It came from Partner over" in asked
    assert "asks Acme Travel for “consolidate”" in asked


def test_a_key_that_cannot_sign_stops_the_bus_and_publishes_nothing(bus, participant):
    participant.submit("r-1")
    bus.row.signing_key = "-----BEGIN OPENSSH PRIVATE KEY-----\nbm90IGEga2V5\n"
    bus.row.save(update_fields=["signing_key"])

    row = bus.turn()

    assert row.error.startswith("git commit-tree: ")
    assert "bm90IGEga2V5" not in row.error
    participant.pull()
    assert participant.log() == ["Submitted r-1", "A bus"]


def test_ssh_keygen_reads_our_line_as_that_of_an_allowed_signer(bus, tmp_path):
    signers, content = tmp_path / "signers", tmp_path / "content"
    signers.write_text(signing_line(bus) + "\n")
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text(bus.row.signing_key)
    content.write_text("hello")
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "git", content]
    subprocess.run(sign, check=True, capture_output=True)
    who = ["-I", bus.row.our_address, "-s", tmp_path / "content.sig"]
    check = ["ssh-keygen", "-q", "-Y", "verify", "-f", signers, "-n", "git", *who]

    assert subprocess.run(check, input=b"hello", capture_output=True).returncode == 0
