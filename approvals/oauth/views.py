"""The consent page, the token endpoint, and a person's list of what they connected."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.transaction import atomic, set_rollback
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe
from oauth2_provider.exceptions import FatalClientError, OAuthToolkitError
from oauth2_provider.forms import AllowForm
from oauth2_provider.views import (
    AuthorizationView,
    DynamicClientRegistrationView,
    RevokeTokenView,
    TokenView,
)
from oauthlib.oauth2 import InvalidClientIdError

from approvals.http.middleware import content_security_policy
from approvals.oauth import connections
from approvals.oauth.connections import Choice
from approvals.oauth.documents import fetch_if_due
from approvals.oauth.models import LOOPBACK, AccessToken, Client, Connection
from approvals.oauth.tokens import InvalidTarget, resource_of
from approvals.oauth.workloads.endpoint import limited, with_workloads
from approvals.people import principal_of
from approvals.web.settings.agent_forms import scope_in_words
from approvals.web.sign_in.authentication import person_of
from ledger.api.http import parse_json
from ledger.foundation.characters import is_storable
from ledger.principals import Surface

SHOWN = 100


class ConsentForm(AllowForm):
    """The request, which the toolkit keeps here between the page and the click; and the agent."""

    agent = forms.CharField(required=False, max_length=100)


class Consent(AuthorizationView):
    """Asks the person who is signed in which agent of theirs a program becomes."""

    template_name = "oauth/consent.html"
    form_class = ConsentForm

    def validate_authorization_request(self, request: HttpRequest) -> tuple[Any, dict[str, Any]]:
        if request.user.is_authenticated:  # with prompt=none the toolkit asks for strangers too
            fetch_if_due(request, request.GET.get("client_id", ""))
        scopes, credentials = super().validate_authorization_request(request)
        try:
            resource_of(request.GET.getlist("resource"), of_person=True)
        except InvalidTarget:
            refusal = InvalidTarget(state=credentials.get("state"))
            raise OAuthToolkitError(refusal, redirect_uri=credentials["redirect_uri"]) from None
        return scopes, credentials

    def error_response(
        self, error: OAuthToolkitError, application: Client | None, **_: Any
    ) -> HttpResponse:
        """Told to the program if it is one that may ask, whatever the scheme of its address."""
        asking = Client.objects.filter(client_id=self.request.GET.get("client_id", ""))
        response: HttpResponse = super().error_response(error, application or asking.first())
        return response

    def redirect(self, redirect_to: str, application: Client | None) -> HttpResponse:
        """Nobody is sent on unasked, but to a program of this computer or of our operators.

        Or any link to this desk could lead to a page that looks like it.
        """
        by_operators = Client.RegistrationSource.MANUAL
        is_ours = application is not None and application.registration_source == by_operators
        target = urlsplit(redirect_to)
        if self.request.method == "POST" or is_ours or target.hostname in LOOPBACK:
            response: HttpResponse = super().redirect(redirect_to, application)
            return response
        told = dict(parse_qsl(target.query))
        error = {"error": told["error"], "description": told.get("error_description", "")}
        return self.render_to_response({"error": error}, status=HTTPStatus.BAD_REQUEST)

    def form_valid(self, form: ConsentForm) -> HttpResponse:
        try:
            response: HttpResponse = super().form_valid(form)
        except Client.DoesNotExist:  # forgotten since the page was opened, or never known
            return self.error_response(FatalClientError(InvalidClientIdError()), None)
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        if client := context.get("application"):
            target = urlsplit(context["redirect_uri"])
            context |= {
                "client": client,
                "choices": connections.choices_of(person_of(self.request), client),
                "scopes_in_words": [scope_in_words(scope) for scope in context["scopes"]],
                "returns_to": target.hostname or f"{target.scheme}:",
                "is_here": target.hostname in LOOPBACK,
            }
        return context

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().render_to_response(context, **kwargs)
        if uri := context.get("redirect_uri"):
            # The click is answered with a redirect to there, which counts as an aim of the form.
            response["Content-Security-Policy"] = content_security_policy(sends_to=_origin(uri))
        return response

    def create_authorization_response(
        self, request: HttpRequest, scopes: Any, credentials: dict[str, Any], allow: bool
    ) -> Any:
        if not allow:
            return super().create_authorization_response(request, scopes, credentials, allow)
        person, client = person_of(request), Client.objects.get(client_id=credentials["client_id"])
        choice = _chosen(connections.choices_of(person, client), request.POST.get("agent", ""))
        with atomic():
            row = credentials["connection"] = connections.connect(
                person,
                client,
                choice,
                scopes=scopes.split(),
                redirect_to=credentials["redirect_uri"],
            )
            answer = super().create_authorization_response(request, scopes, credentials, allow)
            if not row.codes.exists():  # the program is told why it gets none
                set_rollback(True)
        return answer


def _chosen(choices: list[Choice], key: str) -> Choice:
    """Raises ``Http404`` for what was not offered."""
    chosen = next((choice for choice in choices if choice.key == key), None)
    if chosen is None:
        raise Http404
    return chosen


def _origin(uri: str) -> str:
    """The source of a Content-Security-Policy that covers this address."""
    target = urlsplit(uri)
    return f"{target.scheme}://{target.netloc}" if target.netloc else f"{target.scheme}:"


consent = Consent.as_view()


def _machine(view: Any) -> Any:
    """A view for programs; refuses what no column can have."""

    @csrf_exempt
    @require_POST
    def door(request: HttpRequest) -> HttpResponse:
        texts = [text for name, values in request.POST.lists() for text in (name, *values)]
        if not all(map(is_storable, texts)):
            return JsonResponse({"error": "invalid_request"}, status=400)
        response: HttpResponse = view(request)
        response["Content-Type"] = "application/json"  # some of the toolkit's errors come as HTML
        response["Access-Control-Allow-Origin"] = "*"
        return response

    return door


@csrf_exempt
@require_POST
def register(request: HttpRequest) -> HttpResponse:
    """Register a client (RFC 7591), where operators allow it; it changes nothing of itself later.

    So the toolkit's token for that (RFC 7592) is not handed out.
    """
    try:
        parse_json(request.body)
    except (ValueError, RecursionError):
        return JsonResponse({"error": "invalid_client_metadata"}, status=400)
    answer: HttpResponse = DynamicClientRegistrationView.as_view()(request)
    if answer.status_code != HTTPStatus.CREATED:
        return answer
    made = json.loads(answer.content)
    AccessToken.objects.filter(application__client_id=made["client_id"]).delete()
    shown = {name: value for name, value in made.items() if not name.startswith("registration_")}
    return JsonResponse(shown, status=answer.status_code)


def nothing(request: HttpRequest, client_id: str) -> HttpResponse:
    raise Http404


token = _machine(limited(with_workloads(TokenView.as_view())))
revoke = _machine(limited(RevokeTokenView.as_view()))


@login_required
@require_safe
def connections_page(request: HttpRequest) -> HttpResponse:
    own = Connection.objects.filter(person=person_of(request)).select_related("agent", "client")
    rows = own.order_by("ended_at", "-connected_at")[:SHOWN]
    shown = [(row, [scope_in_words(scope) for scope in row.scopes]) for row in rows]
    return render(request, "oauth/connections.html", {"connections": shown})


@login_required
@require_POST
def disconnect(request: HttpRequest, connection_id: int) -> HttpResponse:
    person = person_of(request)
    own = Connection.objects.filter(person=person, pk=connection_id)
    if not own.exists():
        raise Http404
    if connections.end(own, by=principal_of(person), via=Surface.WEB):
        messages.success(request, _("Disconnected: its tokens open nothing from now on."))
    return redirect("oauth2_provider:connections")
