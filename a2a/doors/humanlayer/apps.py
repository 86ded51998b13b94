"""The Django app of HumanLayer's API: function calls and questions of its clients."""

from __future__ import annotations

from django.apps import AppConfig


class HumanLayerConfig(AppConfig):
    name = "a2a.doors.humanlayer"
    label = "humanlayer"
    verbose_name = "HumanLayer's clients"

    def ready(self) -> None:
        from a2a import origins
        from a2a.doors.humanlayer import changes, checks, webhooks
        from a2a.doors.humanlayer.calls import asked_as, bindings, erasure, tool
        from ledger.delivery.webhooks import channel
        from ledger.events import account_changes, outbox
        from ledger.proof import retention
        from ledger.tools import handed_over_calls
        from ledger.workers import start_checks

        bindings.register()
        handed_over_calls.register(tool.NAMESPACE)
        origins.register_requests(asked_as.of_transaction)
        outbox.register(webhooks.ContactChannel())
        channel.register_form(webhooks.CallForm())
        start_checks.register_check(checks.terms)
        retention.register(erasure.CALLS)
        account_changes.describe(changes.DESCRIPTIONS)
