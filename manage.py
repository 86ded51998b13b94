#!/usr/bin/env python
"""The front door."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "approvals.settings")
    from approvals.local import embedded_services

    embedded_services.use_running_services()
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
