"""What every request gets, whichever page it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware  # noqa: F401
from django.utils.functional import SimpleLazyObject

GetResponse = Callable[[HttpRequest], HttpResponse]
