"""The Django app of the desk: connects channels, jobs and checks."""

from __future__ import annotations

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in, user_logged_out

        from a2a.models import answerers
        from approvals.desk import grants as grants_at_the_desk
        from approvals.models import Role
        from approvals.notifications import subscriptions, summaries
        from approvals.notifications.mail_channel import MailChannel
        from approvals.notifications.push_channel import PushChannel
        from approvals.people import reset_letters, rights, second_operator
        from approvals.people.principals import approver_or_operator_named
        from approvals.people.sign_in import account_access
        from approvals.web import ringing
        from ledger.events import outbox
        from ledger.foundation import doorbell
        from ledger.proof import audit
        from ledger.sign_off import grants
        from ledger.workers import register_step

        answerers.directory = approver_or_operator_named
        outbox.register(MailChannel())
        outbox.register(PushChannel())
        outbox.register(reset_letters.ResetLetters())
        register_step(account_access.forget_expired)
        register_step(summaries.owe_summaries)
        second_operator.register()
        audit.register_accounts(rights.of_everybody, Role.APPROVER, Role.OPERATOR)
        grants.register_check(grants_at_the_desk.check_signer)
        doorbell.register_listener(ringing.ring_live_pages)
        user_logged_in.connect(account_access.on_sign_in)
        user_logged_out.connect(ringing.ring_on_sign_out)
        user_logged_out.connect(subscriptions.end_on_sign_out)
