"""The Django app of agents' sign-in: its kinds of change, what is forgotten, and its checks."""

from __future__ import annotations

from django.apps import AppConfig


class OAuthConfig(AppConfig):
    name = "approvals.oauth"
    label = "oauth"
    verbose_name = "Sign-in of agents"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from approvals.oauth import changes, connections, models
        from approvals.oauth.workloads import pages
        from ledger.events import describe_changes
        from ledger.workers import register_step

        describe_changes(changes.SignInChange)
        describe_changes(changes.IssuerChange)
        pages.register()
        post_delete.connect(models.forget_agent_token, sender=models.AccessToken)
        register_step(connections.forget_expired)
