"""The metadata of the protected resource ``/mcp``."""

from __future__ import annotations

from django.urls import path

from a2a.doors.mcp_server import resource

# RFC 9728 puts the path of the resource behind; older clients leave it out.
urlpatterns = [
    path(".well-known/oauth-protected-resource/mcp", resource.metadata, name="mcp-resource"),
    path(".well-known/oauth-protected-resource", resource.metadata),
]
