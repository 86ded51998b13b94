#!/usr/bin/env python
"""The front door."""

from __future__ import annotations

import linecache
import os
import sys
import traceback


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "approvals.settings")
    from approvals.local import embedded_services

    embedded_services.use_running_services()
    _read_settings()
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


def _read_settings() -> None:
    """Ends with a sentence if one makes no sense: without its value, which may be a secret."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        _ = settings.DEBUG
    except ImproperlyConfigured as fault:
        sys.exit(f"{fault} Nothing was done.")
    except (ValueError, OSError) as fault:
        frames = traceback.extract_tb(fault.__traceback__)
        at = next(
            (each for each in frames if each.filename.endswith("approvals/settings.py")), None
        )
        lines = linecache.getlines(at.filename)[(at.lineno or 1) - 1 : at.end_lineno] if at else []
        where = " ".join(" ".join(lines).split()) or fault
        sys.exit(f"A setting cannot be read, and nothing was done. Correct it: {where}")


if __name__ == "__main__":
    main()
