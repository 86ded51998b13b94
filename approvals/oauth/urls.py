"""The addresses of the authorization server, by the names that the toolkit looks up."""

from __future__ import annotations

from django.urls import path
from oauth2_provider.views import OAuthServerMetadataView

from approvals.oauth import views
from approvals.oauth.workloads import pages

app_name = "oauth2_provider"
METADATA = ".well-known/oauth-authorization-server"
urlpatterns = [
    path(METADATA, OAuthServerMetadataView.as_view(), name="oauth-server-metadata"),
    path("oauth/authorize", views.consent, name="authorize"),
    path("oauth/token", views.token, name="token"),
    path("oauth/revoke", views.revoke, name="revoke-token"),
    path("oauth/register", views.register, name="dcr-register"),
    path("oauth/register/<str:client_id>", views.nothing, name="dcr-register-management"),
    path("account/connections/", views.connections_page, name="connections"),
    path("account/connections/<int:connection_id>/end", views.disconnect, name="disconnect"),
    path("connections/issuers/", pages.overview, name="issuers"),
    path("connections/issuers/new/", pages.new_issuer, name="issuer-new"),
    path("connections/issuers/<int:issuer_id>/", pages.issuer, name="issuer"),
    path("connections/issuers/<int:issuer_id>/off", pages.switch_off, name="issuer-off"),
]
