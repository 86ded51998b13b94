"""Notes for people besides a request's content: whom its client wanted to reach."""

from __future__ import annotations

from collections.abc import Iterator

from a2a.doors.humanlayer.bodies import Channel, FunctionSpec
from ledger.foundation.characters import one_line

NO_ARGUMENTS = (
    "The client did not send the arguments. It never sends positional ones: approve this only if "
    "the function takes none."
)
NAMESAKE = (
    "This is not the tool {name} of this installation: the agent runs a function of its own, under "
    "the same name, and no receipt comes back."
)
LONGEST = 300  # characters of what the client says


def of_call(spec: FunctionSpec, *, has_namesake: bool) -> list[str]:
    """The gravest first. ``has_namesake`` if a tool here is named as the function is."""
    grave = [] if spec.arguments else [NO_ARGUMENTS]
    if has_namesake:
        grave.append(NAMESAKE.format(name=spec.fn))
    return [*grave, *of_channel(spec.channel)]


def of_channel(channel: Channel | None) -> Iterator[str]:
    """A sentence for each way that the client named, and that is not taken."""
    if channel is None:
        return
    if (slack := channel.slack) is not None:
        wanted = _shown(slack.channel_or_user_id, slack.context_about_channel_or_user)
        yield f"The client asked for {wanted} in Slack. Who is told is set here, not by the client."
    for way, phone in (("by SMS", channel.sms), ("by WhatsApp", channel.whatsapp)):
        if phone is not None:
            yield _not_sent(_shown(phone.phone_number), way)
    if channel.email is not None:
        yield _not_sent(_shown(channel.email.address), "by e-mail")


def _not_sent(address: str, way: str) -> str:
    return f"The client asked to reach {address} {way}. Nothing is sent there."


def _shown(address: str, context: str | None = None) -> str:
    named = f"{address} ({context})" if context else address
    return one_line(named)[:LONGEST]
