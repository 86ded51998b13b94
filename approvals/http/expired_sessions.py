"""Responses to requests whose session has ended, or whose page is older than the session.

Nothing is decided then, and the answer says so; a part of a page is never replaced by another page.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from approvals.http.middleware import GetResponse

READING = {"GET", "HEAD"}


class EndedSessions:
    """Middleware: who is sent to the sign-in page by a decision or by a script is told why."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not _is_to_sign_in(request, response):
            return response
        there = sign_in_again(request)
        if _is_of_script(request):
            return _elsewhere(401, there)
        return response if request.method in READING else redirect(there)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """For ``CSRF_FAILURE_VIEW``: the page is older than the session, or the cookie is gone."""
    if not request.user.is_authenticated:
        there = sign_in_again(request)
    elif request.path == settings.LOGIN_URL:
        there = settings.LOGIN_REDIRECT_URL  # signed in meanwhile, in another tab
    else:
        there = _with_reason(page_of(request), "renewed")
    if _is_of_script(request):
        return _elsewhere(403, there)
    return render(request, "403_csrf.html", {"there": there}, status=403)


def sign_in_again(request: HttpRequest) -> str:
    """The address of the sign-in page, which leads back to the page of this request."""
    return f"{settings.LOGIN_URL}?{urlencode({'next': page_of(request), 'why': 'ended'})}"


def page_of(request: HttpRequest) -> str:
    """The page that the person was on; the inbox if that is not known or not ours."""
    if request.method in READING and not _is_of_script(request):
        return request.get_full_path()
    address = request.headers.get("HX-Current-URL") or request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(address, {request.get_host()}):
        return settings.LOGIN_REDIRECT_URL
    parts = urlsplit(address)
    if parts.path == settings.LOGIN_URL or not parts.path.startswith("/"):
        return settings.LOGIN_REDIRECT_URL
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _with_reason(address: str, why: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'why': why})}"


def _is_of_script(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"


def _is_to_sign_in(request: HttpRequest, response: HttpResponse) -> bool:
    """True if ``login_required`` refused it; who signs out gets there without ``next``."""
    if not isinstance(response, HttpResponseRedirect) or request.path == settings.LOGIN_URL:
        return False
    there = urlsplit(response["Location"])
    return there.path == settings.LOGIN_URL and "next=" in there.query


def _elsewhere(status: int, there: str) -> HttpResponse:
    """Make the script open another page instead of replacing a part of this one."""
    response = HttpResponse("Nothing was decided.", status=status, content_type="text/plain")
    response["HX-Redirect"] = there
    return response
