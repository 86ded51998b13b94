"""People give agents work: a task as an agent would submit it, by the same code.

The envelope says who gives it, to whom and until when, so the terms of a skill hold for people too.
A person lends what the skill asks for and nothing else; nothing can be handed on beyond that.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _

from a2a import remote, submissions
from a2a.models import Skill, Task
from a2a.models.answerers import APPROVER, CLIENT, OPERATOR
from a2a.submissions import Submission, Submitted
from a2a.submissions.envelope import OUR_NAME, why_not_revisable
from approvals.desk import policies
from approvals.desk.policies import YES, May
from approvals.http.middleware import Roles, roles_of, tenants_of
from approvals.people import principal_of
from approvals.presentation import in_words, number_written
from ledger.agents import Caller
from ledger.errors import InvalidRequest, NotAllowed, NotFound
from ledger.foundation.characters import cleaned, one_line
from ledger.models import Scope
from ledger.principals import Surface

# As a message over A2A may have: its body holds the files as base64, of up to 1 MiB.
LARGEST_FILES = 700_000  # bytes, of all files together
MOST_FILES = 10
LONGEST = timedelta(days=365)  # what an envelope can say
ANSWERERS = (CLIENT, APPROVER, OPERATOR)
MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Work:
    """Work that a person gives. ``key`` is of the form: sent twice, it makes one task.

    ``change`` is what a revision is to change, or a note to other work. ``lasts`` is how long the
    task may take; ``None``: as long as the skill allows.
    """

    key: UUID
    input: Any
    change: str = ""
    files: list[UploadedFile[Any]] = field(default_factory=list)
    lasts: timedelta | None = None
    may_answer: list[str] = field(default_factory=list)
    revises: UUID | None = None


def skills_for(user: User) -> list[Skill]:
    """The skills of the tenants in which this person may give work."""
    tenants = [name for name in roles_of(user) if policies.may_give(name, roles_of(user))]
    usable = Skill.objects.filter(tenant__in=tenants, is_active=True, agent__is_active=True)
    has_buses = apps.is_installed("a2a.doors.git_bus")
    elsewhere = ["agent__remote", *(["agent__bus"] if has_buses else [])]
    return list(usable.select_related(*elsewhere).order_by("agent__name", "name", "pk"))


def skill_for(user: User, skill_id: int) -> Skill:
    """A skill to which this person may give work.

    Raises ``NotFound`` for one of another tenant or one that is not offered, and ``NotAllowed``.
    """
    offered = Skill.objects.filter(is_active=True, agent__is_active=True)
    offered_here = offered.filter(tenant__in=tenants_of(user), pk=skill_id)
    skill = offered_here.select_related("agent__remote").first()
    if skill is None:
        raise NotFound(_("There is no such skill."))
    if not (may := policies.may_give(skill.tenant, roles_of(user))):
        raise NotAllowed(may.why_not)
    return skill


def may_revise(task: Task, roles: Roles) -> May:
    """Yes, or why this person may not ask for a revision of the task."""
    if not (may := policies.may_give(task.tenant, roles)):
        return may
    skill = task.skill
    if skill is None or not (skill.is_active and skill.agent.is_active):
        return May(False, _("Its skill is not offered any more."))
    why_not = why_not_revisable(task, skill)
    return May(False, in_words(why_not)) if why_not else YES


def takes_files(skill: Skill) -> bool:
    """True if files can go along. Our own workers get them as parts of the message."""
    far = getattr(skill.agent, "remote", None)
    return far is None or remote.takes_files(far, skill.slug)


def lent_to(skill: Skill) -> list[str]:
    """The scopes that a person lends to a task of this skill: it can be handed on within these."""
    return sorted({Scope.SUBMIT.value, skill.required_scope} - {""})


def give_work(user: User, skill: Skill, work: Work, *, via: Surface) -> Submitted:
    """Submit the work as a task of this person.

    Raises ``NotAllowed``, and what ``submissions.submit`` raises. A skill that cannot take it now
    makes a REJECTED task with the reason, as it does for agents.
    """
    if not (may := policies.may_give(skill.tenant, roles_of(user))):
        raise NotAllowed(may.why_not)
    principal = principal_of(user)
    lent = lent_to(skill)
    # People read every task of their tenant; that is not lent to the task.
    caller = Caller(principal, skill.tenant, frozenset({*lent, Scope.READ_ALL.value}))
    note = [{"text": work.change}] if work.change else []
    submission = Submission(
        skill=skill.slug,
        input=work.input,
        parts=[{"data": {"skill": skill.slug, "input": work.input}}, *note, *parts_of(work.files)],
        message_id=f"desk-{work.key}",
        envelope=_envelope(str(principal), skill, work, lent),
        idempotency_key=_key(work),
        revises=work.revises,
        may_answer=work.may_answer,
    )
    return submissions.submit(submission, caller=caller, via=via)


def task_made_of(user: User, work: Work) -> Task | None:
    """The task that the same form made before."""
    made = Task.objects.filter(submitted_by=str(principal_of(user)), idempotency_key=_key(work))
    return made.first()


def _key(work: Work) -> str:
    return f"desk:{work.key}"


def _envelope(sender: str, skill: Skill, work: Work, scopes: list[str]) -> dict[str, Any]:
    """The same for each repetition of a form, so that the repetition is recognised."""
    lasts = min(work.lasts or skill.timeout, LONGEST)
    return {
        "trace_id": work.key.hex,
        "message_id": f"desk-{work.key}",
        "idempotency_key": _key(work),
        "from": sender,
        "to": skill.agent.slug,
        "tenant": skill.tenant,
        "capability": skill.slug,
        "audience": OUR_NAME,
        "scopes": scopes,
        "timeout_s": lasts.total_seconds(),
    }


def parts_of(files: list[UploadedFile[Any]]) -> list[dict[str, Any]]:
    """The files as parts of an A2A message. Raises ``InvalidRequest`` where they are too large."""
    if len(files) > MOST_FILES:
        raise InvalidRequest(_("At most {number} files go along.").format(number=MOST_FILES))
    size = sum(each.size or 0 for each in files)
    if size > LARGEST_FILES:
        raise InvalidRequest(
            _(
                "The files have {size} kB together; at most {most} kB go along. Put larger ones "
                "where the agent can fetch them, and give it the address."
            ).format(size=number_written(size // 1000), most=LARGEST_FILES // 1000)
        )
    return [_part_of(each) for each in files]


def _part_of(file: UploadedFile[Any]) -> dict[str, Any]:
    media_type = (file.content_type or "").lower()
    return {
        "raw": base64.b64encode(file.read()).decode(),
        "filename": cleaned(one_line(file.name or ""))[:200] or "file",
        "mediaType": media_type if MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream",
    }
