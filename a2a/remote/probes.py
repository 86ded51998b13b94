"""Sample tasks for remote agents, which show whether they work. They are tasks like any other."""

from __future__ import annotations

import logging
from typing import Any

from a2a import submissions
from a2a.models import RemoteAgent, Skill, Task
from a2a.remote.cards import slug_of
from a2a.submissions import Submission
from a2a.wire import card_from_json
from ledger.agents import Caller
from ledger.contracts import json_schemas
from ledger.errors import LedgerError
from ledger.models import Scope
from ledger.principals import Principal, Surface, system

logger = logging.getLogger(__name__)
PROBE = system("probe", "Probe")


def send_sample(remote: RemoteAgent, *, by: Principal, via: Surface) -> Task | None:
    """Submit the agent's sample task; ``None`` where neither operator nor card has one.

    Raises what ``submissions.submit`` raises.
    """
    sample = remote.sample or _of_card(remote)
    skill = _skill_of(remote, sample)
    if skill is None:
        return None
    scopes = frozenset({Scope.SUBMIT.value, skill.required_scope} - {""})
    submission = Submission(
        skill=skill.slug,
        input=sample["input"],
        parts=[{"data": {"skill": skill.slug, "input": sample["input"]}}],
    )
    caller = Caller(by, skill.tenant, scopes)
    task = submissions.submit(submission, caller=caller, via=via).task
    RemoteAgent.objects.filter(pk=remote.pk).update(probe=task)
    return task


def send_after_change(pk: int) -> None:
    """The operator's own sample: what a card says of itself is sent by operators only."""
    remote = RemoteAgent.objects.select_related("agent").get(pk=pk)
    if not remote.sample:
        return
    try:
        send_sample(remote, by=PROBE, via=Surface.SYSTEM)
    except LedgerError as refusal:
        logger.warning("no sample task for %s: %s", remote, refusal)


def is_sample(remote: RemoteAgent, sample: Any) -> bool:
    """True for ``{"skill": …, "input": …}`` of a skill of the agent that takes the input."""
    if not isinstance(sample, dict) or set(sample) != {"skill", "input"}:
        return False
    skill = _skill_of(remote, sample)
    return skill is not None and not json_schemas.misfits(skill.input_schema, sample["input"])


def _skill_of(remote: RemoteAgent, sample: dict[str, Any]) -> Skill | None:
    rows = Skill.objects.filter(agent=remote.agent_id, is_active=True)
    return rows.filter(slug=str(sample.get("skill", ""))).first()


def _of_card(remote: RemoteAgent) -> dict[str, Any]:
    """The first example in its card, as text; empty where there is none."""
    for skill in card_from_json(remote.card).skills:
        for example in skill.examples[:1]:
            return {"skill": slug_of(skill.id), "input": {"text": example}}
    return {}
