"""Instants with seconds and the time zone: the ledger has several events in one minute."""

from __future__ import annotations

DATETIME_FORMAT = "Y-m-d H:i:s T"
TIME_FORMAT = "H:i:s"
