"""A worker's claim on a transaction: until when it holds, and how it is renewed."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.db.models import F, Q
from django.db.models.functions import Now

from ledger import states
from ledger.contracts import Context, Tool, tools
from ledger.models import Transaction

logger = logging.getLogger(__name__)

# Goes on while the machine is suspended, where the kernel has such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
OUT_OF_REACH = (OperationalError, InterfaceError)


def clock() -> float:
    """Seconds on a clock that nobody sets."""
    return time.clock_gettime(_CLOCK)


def new_lease() -> dict[str, Any]:
    """The columns of a claim: the fencing token goes up, the database's clock says until when."""
    return {
        "fencing_token": F("fencing_token") + 1,
        "attempts": F("attempts") + 1,
        "lease_expires_at": Now() + timedelta(seconds=settings.LEASE_S),
        "next_attempt_at": None,
    }


@dataclass(slots=True)
class Lease:
    """One worker's claim on one transaction, good while the row has this fencing token.

    ``began`` is when the claim was sent, by this process's clock; it surely holds from then on.
    """

    row: Transaction
    fencing_token: int
    began: float = field(default_factory=clock)
    good_until: float = field(init=False)

    def __post_init__(self) -> None:
        self.good_until = self.began + settings.LEASE_S

    @property
    def holds(self) -> Q:
        return Q(fencing_token=self.fencing_token)

    @property
    def is_first(self) -> bool:
        """Every claim raises the fencing token, so nobody can have acted before."""
        return self.fencing_token == 1

    @property
    def tool(self) -> Tool[Any, Any] | None:
        return tools.get(self.row.tool)

    def context(self) -> Context:
        row = self.row
        return Context(
            transaction_id=row.pk,
            tenant=row.tenant,
            operation_key=row.operation_key,
            timeout=self.tool.contract.timeout if self.tool else timedelta(seconds=30),
            held=row.held,
            receipt=row.receipt,
            result=row.result or {},
            attempt=row.fencing_token,
        )

    def is_good(self) -> bool:
        """Whether nobody else can have taken over. One that has run out is claimed anew."""
        return clock() < self.good_until or self.renew()

    def renew(self) -> bool:
        """Hold on for ``LEASE_S`` more; ``False`` if it is lost, or nobody can be asked.

        A database that is away for a moment costs a renewal and nothing else.
        """
        began = clock()
        held = Transaction.objects.filter(self.holds, pk=self.row.pk, state__in=states.AT_WORK)
        try:
            is_renewed = held.update(lease_expires_at=Now() + timedelta(seconds=settings.LEASE_S))
        except OUT_OF_REACH as failure:
            logger.warning("the lease on %s could not be renewed: %s", self.row.pk, failure)
            connection.close()
            return False
        if is_renewed:
            self.good_until = began + settings.LEASE_S
        return clock() < self.good_until
