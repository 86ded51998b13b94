"""The Django app of the kit that checks services: ``manage.py check_tool``."""

from __future__ import annotations

from django.apps import AppConfig


class ConformanceConfig(AppConfig):
    name = "approvals.conformance"
    label = "conformance"
