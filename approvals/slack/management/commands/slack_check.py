"""``manage.py slack_check``: says whether Slack accepts the tokens, scopes and channels."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from approvals.slack import setup

LABELS = {"ok": "ok      ", "hint": "hint    ", "missing": "MISSING "}


class Command(BaseCommand):
    help = "Says what is missing before Slack works. Ends with 1 when something is."

    def handle(self, *args: Any, **options: Any) -> None:
        findings = list(setup.check())
        for finding in findings:
            self.stdout.write(f"{LABELS[finding.level]}{finding.text}")
        if any(finding.level == "missing" for finding in findings):
            sys.exit(1)
