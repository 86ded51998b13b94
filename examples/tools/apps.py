"""The Django app of the example tools; ``ASSENT_TOOL_APPS=examples.tools`` installs it."""

from __future__ import annotations

from django.apps import AppConfig


class ExampleToolsConfig(AppConfig):
    name = "examples.tools"
    label = "example_tools"
    verbose_name = "Example tools"
