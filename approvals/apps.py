"""The Django app of the desk: connects channels, jobs and checks."""

from __future__ import annotations

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in, user_logged_out

        from a2a.models import answerers
        from approvals.notifications import subscriptions
        from approvals.notifications.mail_channel import MailChannel
        from approvals.notifications.push_channel import PushChannel
        from approvals.people import account_access, notices, reset_letters, second_operator
        from approvals.people.principals import approver_or_operator_named
        from approvals.slack import changes, identities
        from approvals.slack.interactions import handle_click, replies
        from approvals.slack.messages.channel import SlackChannel
        from approvals.slack.messages.notices import NoticeChannel
        from approvals.web import live
        from ledger.events import account_changes, outbox
        from ledger.foundation.redis import doorbell
        from ledger.workers import sweeper

        answerers.directory = approver_or_operator_named
        account_changes.describe(changes.DESCRIPTIONS)
        notices.describe(changes.TOLD_OF_ANOTHER, changes.TOLD_OF_THEMSELVES)
        outbox.register(SlackChannel())
        outbox.register(identities.LinkChannel())
        outbox.register(NoticeChannel())
        outbox.register(MailChannel())
        outbox.register(PushChannel())
        outbox.register(reset_letters.ResetLetters())
        sweeper.register_step(account_access.forget_expired)
        second_operator.register()
        handle_click.register()
        replies.register()
        doorbell.register_listener(live.ring_live_pages)
        user_logged_in.connect(account_access.on_sign_in)
        user_logged_out.connect(live.ring_on_sign_out)
        user_logged_out.connect(subscriptions.end_on_sign_out)
