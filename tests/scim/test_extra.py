"""Where the extra scim is not installed, the product runs without the app."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.conf import settings

WITHOUT = """
import sys
sys.modules["scim2_models"] = None
import django
django.setup()
from django.apps import apps
from django.urls import get_resolver
addresses = [str(each.pattern) for each in get_resolver().url_patterns]
print(apps.is_installed("approvals.scim"), "scim/v2/" in addresses)
"""


@pytest.mark.slow
def test_without_its_library_the_app_is_left_out():
    environment = {n: value for n, value in os.environ.items() if n != "ASSENT_OPTIONAL_APPS"}
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env=environment | {"DJANGO_SETTINGS_MODULE": "approvals.settings"},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
    )

    assert run.stdout == "False False\n", run.stderr
