from __future__ import annotations

from tests.fake_slack.fixtures import *  # noqa: F403
