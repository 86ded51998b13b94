"""Which app speaks for a workspace."""

from __future__ import annotations

from approvals.models import SlackWorkspace
from approvals.slack.api.credentials import SlackApp, app_of, apps, client_of


def app_for(workspace: SlackWorkspace) -> SlackApp:
    """By what was written down when it was connected; after a change of token, by asking Slack.

    Raises ``NoSuchApp``, and as calls do.
    """
    for app in apps():
        if app.fingerprint == workspace.app:
            return app
    app = app_of(workspace.team_id)
    SlackWorkspace.objects.filter(pk=workspace.pk).update(app=app.fingerprint)
    return app


def workspace_of(app: SlackApp, team_id: str) -> SlackWorkspace | None:
    """The workspace that a call of Slack is about. In an Enterprise Grid, or a channel shared with
    another company, ``team_id`` may be the clicker's: then it is the app's own."""
    named = SlackWorkspace.objects.filter(team_id=team_id).first()
    return named or SlackWorkspace.objects.filter(app=app.fingerprint).first()


def connect(app: SlackApp) -> SlackWorkspace:
    """Enter the workspace of this app, or renew what is known of it. Raises as calls do."""
    answer = client_of(app).auth_test()
    workspace, _ = SlackWorkspace.objects.update_or_create(
        team_id=answer["team_id"],
        defaults={
            "name": answer["team"],
            "bot_user_id": answer["user_id"],
            "app": app.fingerprint,
        },
    )
    return workspace
