"""From a request to a task: addressing, envelope checks, and the INSERT; also hand-overs.

``envelope`` is open to other packages too, as the published schemas describe it, and
``push_configs``, which clients change later.
"""

from __future__ import annotations

from a2a.submissions.drafts import Submission
from a2a.submissions.handovers import hand_over
from a2a.submissions.messages import from_message
from a2a.submissions.skills import record as record_skill
from a2a.submissions.submit import Submitted, submit, submit_all

__all__ = [
    "Submission",
    "Submitted",
    "from_message",
    "hand_over",
    "record_skill",
    "submit",
    "submit_all",
]
