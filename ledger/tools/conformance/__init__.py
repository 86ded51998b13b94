"""Checks of a service that offers tools over HTTP."""

from __future__ import annotations

from ledger.tools.conformance.probe import Probe, Sample, Signer, WithKey, WithSecret
from ledger.tools.conformance.run import CHECKS, Finding, findings
from ledger.tools.conformance.service import NotStarted, StartedService, listens, published

__all__ = [
    "CHECKS",
    "Finding",
    "NotStarted",
    "Probe",
    "Sample",
    "Signer",
    "StartedService",
    "WithKey",
    "WithSecret",
    "findings",
    "listens",
    "published",
]
