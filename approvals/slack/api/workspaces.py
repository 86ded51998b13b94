"""The app of each workspace."""

from __future__ import annotations

from approvals.models import SlackWorkspace
from approvals.slack.api.credentials import SlackApp, app_of, client_of, slack_apps


def app_for(workspace: SlackWorkspace) -> SlackApp:
    """The app stored with the workspace; after a change of token, the one that Slack names.

    Raises ``NoSuchApp``, and what the client does.
    """
    for app in slack_apps():
        if app.fingerprint == workspace.app:
            return app
    app = app_of(workspace.team_id)
    SlackWorkspace.objects.filter(pk=workspace.pk).update(app=app.fingerprint)
    return app


def workspace_of(app: SlackApp, team_id: str) -> SlackWorkspace | None:
    """The workspace that a request of Slack is about.

    In an Enterprise Grid, or a channel shared with another company, ``team_id`` may be that of the
    person who clicked: then it is the app's own workspace.
    """
    named = SlackWorkspace.objects.filter(team_id=team_id).first()
    return named or SlackWorkspace.objects.filter(app=app.fingerprint).first()


def connect_workspace(app: SlackApp) -> SlackWorkspace:
    """Create the row of the app's workspace, or update it. Raises what the client does."""
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
