"""The addresses of agent cards, JSON Schemas and push notifications from remote agents."""

from __future__ import annotations

from django.urls import path

from a2a.cards import views
from a2a.humanlayer import views as humanlayer
from a2a.mcp import resource
from a2a.remote import push_receiver

app_name = "a2a"
HUMANLAYER = "humanlayer/v1"
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
    path(f"{HUMANLAYER}/function_calls", humanlayer.function_call_created),
    path(f"{HUMANLAYER}/function_calls/<str:call_id>", humanlayer.function_call),
    path(f"{HUMANLAYER}/agent/function_calls/<str:call_id>/respond", humanlayer.call_answered),
    path(
        f"{HUMANLAYER}/agent/function_calls/<str:call_id>/escalate_email",
        humanlayer.call_escalated,
    ),
    path(
        f"{HUMANLAYER}/agent/human_contacts/<str:call_id>/escalate_email",
        humanlayer.contact_escalated,
    ),
    path(f"{HUMANLAYER}/contact_requests", humanlayer.contact_created),
    path(f"{HUMANLAYER}/contact_requests/<str:call_id>", humanlayer.contact),
    # As older pages of its documentation spell it.
    path(f"{HUMANLAYER}/human_contacts", humanlayer.contact_created),
    path(f"{HUMANLAYER}/human_contacts/<str:call_id>", humanlayer.contact),
    path(f"{HUMANLAYER}/agent/human_contacts/<str:call_id>/respond", humanlayer.contact_answered),
    path("a2a/news/<int:mirror_id>", push_receiver.news, name="news"),
    path("a2a/schemas/<str:name>", views.schema, name="schema"),
]
