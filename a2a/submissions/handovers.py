"""Handing a task over to another skill, on that skill's terms for the task's client."""

from __future__ import annotations

from uuid import UUID

from django.db.transaction import atomic

from a2a import tasks
from a2a.errors import HandOverRefused, SkillNotFound
from a2a.models import Skill, Task
from a2a.submissions import envelope
from a2a.submissions.envelope import Denial
from ledger.agents import Caller
from ledger.principals import Principal, Surface


def hand_over(
    task_id: UUID, *, agent: Principal, fencing_token: int, slug: str, reason: str, via: Surface
) -> Task:
    """Give the task to another skill of its tenant; it waits there for a worker.

    The client must be able to submit to that skill itself: it is offered to the client, covered by
    the scopes that were lent to the request, takes the input, and has room for one more task.

    Raises ``SkillNotFound, HandOverRefused`` (the lease stays), ``TaskLeaseLost, TaskNotFound``.
    """
    held = Task.objects.filter(tasks.held_by(agent, fencing_token), pk=task_id)
    task = held.select_related("parent").first()
    if task is None:
        raise tasks.lost_or_missing(task_id, agent)
    with atomic():
        # The lock keeps the count of open tasks true, as it does for submissions.
        offered = Skill.objects.select_for_update(of=("self",)).select_related("agent")
        skill = offered.filter(
            tenant=task.tenant, slug=slug, is_active=True, agent__is_active=True
        ).first()
        if skill is None:
            raise SkillNotFound()
        if denial := _denial(task, skill):
            raise HandOverRefused(denial.detail, reason=denial.code, errors=denial.errors)
        return tasks.hand_over(
            task_id, agent=agent, fencing_token=fencing_token, skill=skill, reason=reason, via=via
        )


def _denial(task: Task, skill: Skill) -> Denial | None:
    client = _client_of(task)
    is_offered = Skill.objects.offered_to(client.tenant).filter(pk=skill.pk).exists()
    request = envelope.Request(
        caller=client,
        skill=skill if is_offered else None,
        skill_slug=skill.slug,
        input=task.input,
        parent=task.parent,
        has_envelope=bool(task.envelope_message_id),
    )
    denial = envelope.denial_of_hand_over(request)
    if denial is None and not Task.objects.has_room_in(skill):
        return envelope.over_capacity(skill)
    return denial


def _client_of(task: Task) -> Caller:
    """The submitter of the task, with the scopes that it lent to the request."""
    principal = task.submitter
    # People belong to no single tenant; they give tasks to the skills of the task's own.
    return Caller(principal, principal.tenant or task.tenant, frozenset(task.lent_scopes))
