"""What goes wrong next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Fault:
    method: str  # "*": any
    times: int
    status: int | None
    error: str
    retry_after_s: int | None
    delay_s: float
    drop: str

    @property
    def keeps_effect(self) -> bool:
        """Only late, or cut off after the fact: the call itself is carried out."""
        return self.drop == "after" or (self.status is None and not self.error and not self.drop)


def take(faults: list[Fault], method: str) -> Fault | None:
    """The first fault that is meant for this call; used up when its times are over."""
    for fault in faults:
        if fault.method in ("*", method):
            fault.times -= 1
            if not fault.times:
                faults.remove(fault)
            return fault
    return None


def fault_of(
    method: str,
    times: int,
    status: int | None,
    error: str,
    retry_after_s: int | None,
    delay_s: float,
    drop: str,
) -> Fault:
    assert drop in ("", "before", "after"), drop
    if status is None and retry_after_s is not None:
        status = 429
    if status is None and not (error or delay_s or drop):
        status = 500
    return Fault(method, times, status, error, retry_after_s, delay_s, drop)
