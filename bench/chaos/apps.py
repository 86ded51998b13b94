from __future__ import annotations

from django.apps import AppConfig


class ChaosConfig(AppConfig):
    name = "bench.chaos"
    label = "chaos"
