"""Doing together what is asked for at the same time: by ``requests``, by ``threads``."""

from __future__ import annotations

from ledger.foundation.batches.requests import (
    OUTAGES,
    Batcher,
    BatchLanes,
    batch_lanes,
    in_thread,
)
from ledger.foundation.batches.threads import Combiner

__all__ = ["OUTAGES", "BatchLanes", "Batcher", "Combiner", "batch_lanes", "in_thread"]
