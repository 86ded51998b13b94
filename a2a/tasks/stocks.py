"""Caps on open tasks and open questions of one agent or tenant: see ``ledger.limits.stocks``."""

from __future__ import annotations

from ledger.limits import Limit
from ledger.limits.stocks import Stock

open_tasks = Stock(Limit.TASKS, table="a2a_task", holder="submitted_by", is_open="ended_at IS NULL")
open_questions = Stock(
    Limit.QUESTIONS, table="a2a_question", holder="asked_by", is_open="state = 'open'"
)
