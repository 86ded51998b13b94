"""The addresses of agent cards, JSON Schemas and push notifications from remote agents."""

from __future__ import annotations

from django.apps import apps
from django.urls import include, path
from django.utils.module_loading import module_has_submodule

from a2a.cards import views
from a2a.remote import push_receiver

app_name = "a2a"
SKILL = "a2a/skills/<slug:skill>"
urlpatterns = [
    path(".well-known/agent-card.json", views.card, name="card"),
    path("a2a/.well-known/agent-card.json", views.card),
    path(".well-known/jwks.json", views.jwks, name="jwks"),
    # Where clients of version 0.3 and before look, from the origin and from the address of 0.3.
    path(".well-known/agent.json", views.v03_card, name="old-card"),
    path("a2a/v0.3", views.v03_card),
    path("a2a/v0.3/", views.v03_card),
    path("a2a/v0.3/.well-known/agent-card.json", views.v03_card, name="v03-card"),
    path("a2a/v0.3/.well-known/agent.json", views.v03_card),
    path("a2a/v0.3/agent-card.json", views.v03_card),
    path(f"{SKILL}/.well-known/agent-card.json", views.card, name="skill-card"),
    path(f"{SKILL}/v0.3", views.v03_card),
    path(f"{SKILL}/v0.3/", views.v03_card),
    path(f"{SKILL}/v0.3/.well-known/agent-card.json", views.v03_card),
    path(f"{SKILL}/v0.3/.well-known/agent.json", views.v03_card),
    path("api/v1/.well-known/agent-card.json", views.dialect, name="dialect-card"),
    path("a2a/news/<int:mirror_id>", push_receiver.news, name="news"),
    path("a2a/schemas/<str:name>", views.schema, name="schema"),
    # The optional doors that are installed.
    *(
        path("", include(f"{door.name}.urls"))
        for door in apps.get_app_configs()
        if door.name.startswith("a2a.doors.") and module_has_submodule(door.module, "urls")
    ),
]
