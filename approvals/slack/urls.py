"""The addresses that Slack calls."""

from __future__ import annotations

from django.urls import path

from approvals.slack import views

app_name = "slack"
urlpatterns = [
    path("interactions", views.interaction, name="interactions"),
    path("commands", views.command, name="commands"),
    path("events", views.event, name="events"),
]
