"""The addresses of Slack's pages among the settings."""

from __future__ import annotations

from django.urls import path

from approvals.web.settings.channels import routes, workspaces

urlpatterns = [
    path("<int:workspace_id>/", workspaces.workspace, name="channel-workspace"),
    path("<int:workspace_id>/people/new/", workspaces.link_person, name="channel-link"),
    path(
        "<int:workspace_id>/people/<int:person_id>/unlink",
        workspaces.unlink_person,
        name="channel-unlink",
    ),
    path("<int:workspace_id>/routes/new/", routes.new_route, name="channel-route-new"),
    path("routes/<int:route_id>/", routes.route, name="channel-route"),
    path("routes/<int:route_id>/remove", routes.remove_route, name="channel-route-remove"),
    path("routes/<int:route_id>/try", routes.try_route, name="channel-route-try"),
]
