"""RQ's own pages, for superusers: they show, run again and delete jobs of all tenants."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern
from django_rq import urls as rq_urls
from redis import RedisError
from rq.exceptions import InvalidJobOperation, NoSuchJobError

# ImproperlyConfigured: a page about schedulers, of which there are none.
NOT_THERE = (NoSuchJobError, InvalidJobOperation, ImproperlyConfigured, IndexError, ValueError)
View = Callable[..., HttpResponse]


def for_superusers(view: View) -> View:
    @wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if not (request.user.is_superuser and request.user.is_active):
            raise PermissionDenied("The queues are for superusers. Operations shows how they are.")
        try:
            return view(request, *args, **kwargs)
        except NOT_THERE as failure:
            raise Http404("There is no such job, queue or worker any more.") from failure
        except RedisError:
            text = "Redis does not answer. Nothing was changed; the sweeper does the work."
            return HttpResponse(text, status=503, content_type="text/plain")

    return page


app_name = "django_rq"
urlpatterns = [
    URLPattern(route.pattern, for_superusers(route.callback), route.default_args, route.name)
    for route in rq_urls.urlpatterns
]
