"""Our participant file in the repository: which methods we offer there."""

from __future__ import annotations

from a2a.doors.git_bus.models import BusMethod
from a2a.doors.git_bus.passes import Pass
from a2a.doors.git_bus.repository import Change, files
from a2a.models import Skill


def publish(bus_pass: Pass) -> None:
    """Write or refresh it, if it is not as it should be."""
    path, content = bus_pass.folders.participant_file(bus_pass.bus.participant), _content(bus_pass)

    def change() -> Change | None:
        entry = bus_pass.entry(path)
        if entry and files.is_small(entry) and bus_pass.repository.read(entry) == content:
            return None
        return Change(f"Manifest of {bus_pass.bus.participant}", written={path: content})

    bus_pass.publish(change)


def _content(bus_pass: Pass) -> bytes:
    offered = dict(
        BusMethod.objects.filter(bus=bus_pass.bus, is_ours=True).values_list("method", "skill")
    )
    tenant = bus_pass.bus.agent.tenant_id
    skills = Skill.objects.offered_to(tenant).filter(slug__in=offered.values())
    texts = {skill.slug: skill.description for skill in skills}
    lines = [f"{method}: {texts.get(slug, slug)}" for method, slug in sorted(offered.items())]
    return files.write_participant(
        bus_pass.bus.participant,
        bus_pass.folders,
        role=bus_pass.bus.our_name,
        description="\n".join(lines) or "Offers nothing; sends requests.",
        methods=list(offered),
    )
