"""The Django app of the desk: connects channels, jobs and checks."""

from __future__ import annotations

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        from a2a.models import answerers
        from approvals.people.principals import who_may_act
        from approvals.slack import identities
        from approvals.slack.interactions import handle_click, replies  # noqa: F401
        from approvals.slack.messages.channel import SlackChannel
        from approvals.slack.messages.notices import NoticeChannel
        from approvals.web import live  # noqa: F401
        from ledger.events import outbox

        answerers.directory = who_may_act
        outbox.register(SlackChannel())
        outbox.register(identities.LinkChannel())
        outbox.register(NoticeChannel())
