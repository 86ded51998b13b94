"""What a client reads before it signs in: from the 401 to the token endpoint."""

from __future__ import annotations

import pytest
from django.test import Client as Browser

from tests.mcp.wire import say

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_client_without_a_token_is_led_to_the_authorization_server(acme):
    challenge = say("", "tools/list").headers["www-authenticate"]
    resource = Browser().get("/.well-known/oauth-protected-resource/mcp").json()
    server = Browser().get("/.well-known/oauth-authorization-server").json()

    assert (
        'resource_metadata="http://localhost:8000/.well-known/oauth-protected-resource/mcp"'
        in challenge
    )
    assert 'scope="propose submit"' in challenge
    assert resource["resource"] == "http://localhost:8000/mcp"
    assert resource["authorization_servers"] == [server["issuer"]]
    assert server["authorization_endpoint"] == "http://localhost:8000/oauth/authorize"
    assert server["token_endpoint"] == "http://localhost:8000/oauth/token"
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert "none" in server["token_endpoint_auth_methods_supported"]
    assert server["client_id_metadata_document_supported"]
    assert server["authorization_response_iss_parameter_supported"]
    assert "registration_endpoint" not in server


def test_without_registration_there_is_no_such_address(acme):
    answer = Browser().post("/oauth/register", {}, content_type="application/json")

    assert answer.status_code == 404
