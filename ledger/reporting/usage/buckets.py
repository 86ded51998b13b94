"""Amounts and waits by size, on scales of equal ratios: quantiles come out of counted rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

NONE = -1_000  # there is no amount, or no person decided
ZERO = -999  # an amount of nothing
SIZES_PER_TENFOLD = 20  # each is an eighth larger than the one before
WAITS_PER_DOUBLING = 4
ENOUGH = 10  # amounts that tell which are out of the ordinary
FENCE = 1.5
DOUBLE = math.ceil(SIZES_PER_TENFOLD * math.log10(2))  # sizes in which an amount doubles
FIRST_S = 3.0  # the first bucket of waits


def size_begins(size: int) -> Decimal:
    """The smallest amount of this size."""
    return Decimal(0) if size == ZERO else Decimal(10 ** (size / SIZES_PER_TENFOLD))


def size_ends(size: int) -> Decimal:
    return Decimal(0) if size == ZERO else size_begins(size + 1)


def upper_limit(sizes: Mapping[int, int]) -> Decimal | None:
    """The amount above which one is out of the ordinary beside these; ``None`` of too few.

    At most one of them in fifty lies above it, or one alone; it is twice as much as that, unless
    most are so alike that Tukey's fence around their middle half is lower.
    """
    paid = {size: number for size, number in sizes.items() if size != ZERO}
    lower, upper = quantile(paid, 0.25), quantile(paid, 0.75)
    if lower is None or upper is None or sum(paid.values()) < ENOUGH:
        return None
    highest = _all_but(max(1, sum(paid.values()) // 50), paid)
    fence = upper + max(round(FENCE * (upper - lower)), DOUBLE)
    return size_ends(max(highest, min(fence, highest + DOUBLE)))


def _all_but(number: int, counts: Mapping[int, int]) -> int:
    """The highest bucket once so many of the highest are left out."""
    left_out = 0
    for bucket in sorted(counts, reverse=True):
        left_out += counts[bucket]
        if left_out > number:
            return bucket
    return min(counts)


def wait_begins_s(wait: int) -> float:
    """The shortest time to decide that has this bucket, in seconds."""
    return 0.0 if wait <= 0 else FIRST_S * 2 ** ((wait - 1) / WAITS_PER_DOUBLING)


# Of ``{0}``, an amount or a number of seconds.
SIZE_SQL = (
    f"CASE WHEN {{0}} = 0 THEN {ZERO} ELSE floor({SIZES_PER_TENFOLD} * log({{0}}::float8))::int END"
)
WAIT_SQL = (
    f"CASE WHEN {{0}} < {FIRST_S} THEN 0 "
    f"ELSE 1 + floor({WAITS_PER_DOUBLING / math.log(2)} * ln({{0}}::float8 / {FIRST_S}))::int END"
)


def quantile(counts: Mapping[int, int], fraction: float) -> int | None:
    """The bucket that the given fraction of what is counted reaches; ``None`` of nothing."""
    wanted = fraction * sum(counts.values())
    reached = 0
    for bucket in sorted(counts):
        reached += counts[bucket]
        if reached >= wanted and counts[bucket]:
            return bucket
    return None


def wait_quantile_s(counts: Mapping[int, int], fraction: float) -> float | None:
    """The time in which the given fraction was decided, in seconds, to about a tenth."""
    bucket = quantile(counts, fraction)
    if bucket is None:
        return None
    before = sum(number for other, number in counts.items() if other < bucket)
    within = (fraction * sum(counts.values()) - before) / counts[bucket]
    begins, ends = wait_begins_s(bucket), wait_begins_s(bucket + 1)
    return begins + (ends - begins) * min(max(within, 0.0), 1.0)


def rounded_down(amount: Decimal) -> Decimal:
    """To two digits: ``12.37`` as ``12``."""
    return _rounded(amount, ROUND_FLOOR)


def rounded_up(amount: Decimal) -> Decimal:
    return _rounded(amount, ROUND_CEILING)


def _rounded(amount: Decimal, rounding: str) -> Decimal:
    if not amount:
        return amount
    return amount.quantize(Decimal(1).scaleb(amount.adjusted() - 1), rounding=rounding)
