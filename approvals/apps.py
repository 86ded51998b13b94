from __future__ import annotations

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        from approvals.slack import reactions, responses  # noqa: F401
        from approvals.slack.channel import SlackChannel
        from approvals.web import live  # noqa: F401
        from ledger import deliveries

        deliveries.register(SlackChannel())
