"""The Django app of Slack: messages out, clicks and commands in."""

from __future__ import annotations

from django.apps import AppConfig


class SlackConfig(AppConfig):
    name = "approvals.slack"
    label = "slack"

    def ready(self) -> None:
        from approvals.people import notices
        from approvals.slack import changes, identities
        from approvals.slack.interactions import handle_click, replies
        from approvals.slack.messages.channel import SlackChannel
        from approvals.slack.messages.notices import NoticeChannel
        from ledger.events import describe_changes, outbox

        describe_changes(changes.SlackChange)
        notices.describe(changes.TOLD_OF_ANOTHER, changes.TOLD_OF_THEMSELVES)
        outbox.register(SlackChannel())
        outbox.register(identities.LinkChannel())
        outbox.register(NoticeChannel())
        handle_click.register()
        replies.register()
