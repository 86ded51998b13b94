"""Our participant file in the repository: which methods we offer there."""

from __future__ import annotations

from a2a.doors.git_bus.models import BusMethod
from a2a.doors.git_bus.passes import Pass
from a2a.doors.git_bus.repository import Change, files
from a2a.models import Skill


def publish(here: Pass) -> None:
    """Write or refresh it, if it is not as it should be."""
    path, content = here.folders.participant_file(here.bus.participant), _content(here)

    def change() -> Change | None:
        entry = here.entry(path)
        if entry and files.is_small(entry) and here.repository.read(entry) == content:
            return None
        return Change(f"Manifest of {here.bus.participant}", written={path: content})

    here.publish(change)


def _content(here: Pass) -> bytes:
    offered = dict(
        BusMethod.objects.filter(bus=here.bus, is_ours=True).values_list("method", "skill")
    )
    agent = here.bus.agent
    skills = Skill.objects.offered_to(agent.tenant_id).filter(slug__in=offered.values())
    texts = {skill.slug: skill.description for skill in skills}
    lines = [f"{method}: {texts.get(slug, slug)}" for method, slug in sorted(offered.items())]
    return files.write_participant(
        here.bus.participant,
        here.folders,
        role=agent.name,
        description="\n".join(lines) or "Offers nothing; sends requests.",
        methods=list(offered),
    )
