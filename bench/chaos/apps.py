from __future__ import annotations

import os

from django.apps import AppConfig


class ChaosConfig(AppConfig):
    name = "bench.chaos"
    label = "chaos"

    def ready(self) -> None:
        from bench.chaos import scenes

        if at := os.environ.get(scenes.STAND_AT):
            scenes.stand_still(at)
