"""The public addresses of the transparency log."""

from __future__ import annotations

from django.urls import path

from ledger.proof.log import views

app_name = "log"
urlpatterns = [
    path("checkpoint", views.checkpoint, name="checkpoint"),
    path("key", views.key, name="key"),
    path("tile/<path:place>", views.tile, name="tile"),
]
