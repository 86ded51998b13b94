"""The Django app of an installation on one machine: ``manage.py up`` and ``manage.py demo``."""

from __future__ import annotations

from django.apps import AppConfig


class LocalConfig(AppConfig):
    name = "approvals.local"
    label = "local"
