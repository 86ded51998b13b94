from __future__ import annotations

from django.urls import path

from ledger import log_views

app_name = "log"
urlpatterns = [
    path("checkpoint", log_views.checkpoint, name="checkpoint"),
    path("key", log_views.key, name="key"),
    path("tile/<path:place>", log_views.tile, name="tile"),
]
