from __future__ import annotations

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        from a2a import answerers
        from approvals import notices
        from approvals.principals import who_may_act
        from approvals.slack import identities, reactions, responses  # noqa: F401
        from approvals.slack.channel import SlackChannel
        from approvals.web import live  # noqa: F401
        from ledger import deliveries

        answerers.directory = who_may_act
        deliveries.register(SlackChannel())
        deliveries.register(identities.LinkChannel())
        deliveries.register(notices.NoticeChannel())
