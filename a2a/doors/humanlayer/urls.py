"""The addresses of HumanLayer's API."""

from __future__ import annotations

from django.urls import path

from a2a.doors.humanlayer import views

BASE = "humanlayer/v1"
urlpatterns = [
    path(f"{BASE}/function_calls", views.function_call_created),
    path(f"{BASE}/function_calls/<str:call_id>", views.function_call),
    path(f"{BASE}/agent/function_calls/<str:call_id>/respond", views.call_answered),
    path(f"{BASE}/agent/function_calls/<str:call_id>/escalate_email", views.call_escalated),
    path(f"{BASE}/agent/human_contacts/<str:call_id>/escalate_email", views.contact_escalated),
    path(f"{BASE}/contact_requests", views.contact_created),
    path(f"{BASE}/contact_requests/<str:call_id>", views.contact),
    # As older pages of its documentation spell it.
    path(f"{BASE}/human_contacts", views.contact_created),
    path(f"{BASE}/human_contacts/<str:call_id>", views.contact),
    path(f"{BASE}/agent/human_contacts/<str:call_id>/respond", views.contact_answered),
]
