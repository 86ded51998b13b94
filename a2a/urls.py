"""The addresses of agent cards, JSON Schemas and push notifications from remote agents."""

from __future__ import annotations

from django.urls import path

from a2a.cards import views
from a2a.mcp import resource
from a2a.remote import push_receiver

app_name = "a2a"
SKILL = "a2a/skills/<slug:skill>"
urlpatterns = [
    path(".well-known/agent-card.json", views.card, name="card"),
    path("a2a/.well-known/agent-card.json", views.card),
    path(".well-known/jwks.json", views.jwks, name="jwks"),
    # Where clients of version 0.3 and before look, from the origin and from the address of 0.3.
    path(".well-known/agent.json", views.v03_card, name="old-card"),
    path("a2a/v0.3/.well-known/agent-card.json", views.v03_card, name="v03-card"),
    path("a2a/v0.3/.well-known/agent.json", views.v03_card),
    path("a2a/v0.3/agent-card.json", views.v03_card),
    path(f"{SKILL}/.well-known/agent-card.json", views.card, name="skill-card"),
    path(f"{SKILL}/v0.3/.well-known/agent-card.json", views.v03_card),
    path(f"{SKILL}/v0.3/.well-known/agent.json", views.v03_card),
    path("api/v1/.well-known/agent-card.json", views.dialect, name="dialect-card"),
    # RFC 9728 puts the path of the resource behind; older clients leave it out.
    path(".well-known/oauth-protected-resource/mcp", resource.metadata, name="mcp-resource"),
    path(".well-known/oauth-protected-resource", resource.metadata),
    path("a2a/news/<int:mirror_id>", push_receiver.news, name="news"),
    path("a2a/schemas/<str:name>", views.schema, name="schema"),
]
