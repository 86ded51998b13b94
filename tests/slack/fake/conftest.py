from __future__ import annotations

from tests.slack.fake.fixtures import *  # noqa: F403
