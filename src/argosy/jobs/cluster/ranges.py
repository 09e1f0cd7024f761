"""Which shard has a tenant: ranges of XXH64, written as sixteen hexadecimal digits.

Hashes of equal length sort as text as they do as numbers, so a range is two texts. It is half-open; an empty end is
unbounded. A tenant lies in exactly one range of a map, so its jobs are never spread over two shards.
"""

import re
from itertools import pairwise

import msgspec

from argosy.base.errors import Invalid
from argosy.base.hashing import hash64
from argosy.jobs.model import TENANT_CHARS_MAX

SPACE = 1 << 64
_POINT = re.compile(r"[0-9a-f]{16}")


def hash_of(tenant: str) -> str:
    return f"{hash64(tenant):016x}"


def check_tenant_name(tenant: str) -> None:
    if not tenant or len(tenant) > TENANT_CHARS_MAX:
        raise Invalid(f"a tenant's id has 1 to {TENANT_CHARS_MAX} characters; got {len(tenant)}")


class HashRange(msgspec.Struct, frozen=True, order=True):
    """The hashes from `start` to just before `end`."""

    start: str = ""
    end: str = ""

    def has(self, tenant: str) -> bool:
        return self.has_hash(hash_of(tenant))

    def has_hash(self, point: str) -> bool:
        return self.start <= point and (not self.end or point < self.end)

    def middle(self) -> str:
        """The hash that halves the range."""
        first = int(self.start or "0", 16)
        return f"{(first + (int(self.end, 16) if self.end else SPACE)) // 2:016x}"

    def split(self, point: str) -> "tuple[HashRange, HashRange]":
        """The parts before and from `point`; Invalid unless both have something in them."""
        check_point(point)
        if not self.has_hash(point) or point == (self.start or f"{0:016x}"):
            raise Invalid(f"{point} does not lie within {self}: name a hash inside the shard's range, not its start")
        return HashRange(self.start, point), HashRange(point, self.end)

    def __str__(self) -> str:
        return f"[{self.start or '-'}, {self.end or '-'})"


def check_point(point: str) -> None:
    if not _POINT.fullmatch(point):
        raise Invalid(f"{point[:40]!r} is no hash: write sixteen hexadecimal digits in lower case")


def evenly(count: int) -> list[HashRange]:
    """The whole space in `count` parts: the boundaries are those of the original, so clients may compute them."""
    bounds = ["", *(f"{number * SPACE // count:016x}" for number in range(1, count)), ""]
    return [HashRange(start, end) for start, end in pairwise(bounds)]
