"""The Django app of Insight: charts of what was asked for and decided."""

from __future__ import annotations

from django.apps import AppConfig


class InsightConfig(AppConfig):
    name = "approvals.insight"
    label = "insight"
