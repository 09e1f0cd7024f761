"""The shard map: which shards exist and which tenant hashes each has; and this node's copy of it.

The map is durable and changes only with splits. It is a sequence of numbered versions, each written once: of two nodes
that change it at the same time one gets the number, and the other reads again (decision 0025). Shard ids are assigned
once, so the rows of a shard are found after every restart. Ranges leave no gap and do not overlap; a map that violates
this is rejected.

`ShardMapCache` is the node's unit catalog: the ring places the shards of the map.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import msgspec

from argosy.base.errors import Conflict, Invalid, NotFound, Unavailable
from argosy.base.hashing import hash64
from argosy.jobs.model import TENANT_CHARS_MAX
from argosy.ownership.model import UnitSpec

# XXH64 of the tenant as 16 hexadecimal digits, as silo's clients compute it.
HASH_SPACE = 1 << 64
_POINT = re.compile(r"[0-9a-f]{16}")


def hash_of(tenant: str) -> str:
    return f"{hash64(tenant):016x}"


def check_tenant_name(tenant: str) -> None:
    if not tenant or len(tenant) > TENANT_CHARS_MAX:
        raise Invalid(f"a tenant's id has 1 to {TENANT_CHARS_MAX} characters; got {len(tenant)}")


class HashRange(msgspec.Struct, frozen=True, order=True):
    """The hashes from `start` up to, not including, `end`."""

    start: str = ""
    end: str = ""

    def has(self, tenant: str) -> bool:
        return self.has_hash(hash_of(tenant))

    def has_hash(self, point: str) -> bool:
        return self.start <= point and (not self.end or point < self.end)

    def middle(self) -> str:
        """The hash in the middle of the range."""
        first = int(self.start or "0", 16)
        return f"{(first + (int(self.end, 16) if self.end else HASH_SPACE)) // 2:016x}"

    def split(self, point: str) -> "tuple[HashRange, HashRange]":
        """The parts before and from `point`; Invalid if either would be empty."""
        check_point(point)
        if not self.has_hash(point) or point == (self.start or f"{0:016x}"):
            raise Invalid(f"{point} is not inside {self}; use a hash inside the shard's range, not its start")
        return HashRange(self.start, point), HashRange(point, self.end)

    def __str__(self) -> str:
        return f"[{self.start or '-'}, {self.end or '-'})"


def check_point(point: str) -> None:
    if not _POINT.fullmatch(point):
        raise Invalid(f"invalid hash {point[:40]!r}: use 16 lower-case hexadecimal digits")


def equal_ranges(count: int) -> list[HashRange]:
    """The whole space in `count` equal parts, with silo's rounding: its clients may compute the same boundaries."""
    bounds = ["", *(f"{number * HASH_SPACE // count:016x}" for number in range(1, count)), ""]
    return [HashRange(start, end) for start, end in pairwise(bounds)]


SHARDS_MAX = 4096  # of one map; each is a database with memory and background work of its own
FORMAT = 2  # a release reads its own format only: a map that is misunderstood would assign tenants to wrong shards


class SplitRequest(msgspec.Struct, frozen=True):
    """A split that was requested and is not done; see `splitter`."""

    point: str
    requested_at: int  # milliseconds since the epoch
    node: str  # that accepted the request
    tries: int = 1  # attempts that have been started


class ShardSpec(msgspec.Struct, frozen=True):
    """A shard that should be served."""

    id: str
    range: HashRange
    created_at: int  # milliseconds since the epoch
    parent: str = ""  # the shard that was split, if it came from a split
    aborted_splits: int = 0  # number of splits that were aborted; see `seal`
    split_request: SplitRequest | None = None


class ShardMap(msgspec.Struct, frozen=True):
    """All shards, in the order of their ranges. `version` grows by one with each change."""

    version: int
    shards: tuple[ShardSpec, ...]
    format: int = FORMAT

    def by_id(self, shard_id: str) -> ShardSpec:
        for spec in self.shards:
            if spec.id == shard_id:
                return spec
        raise NotFound(f"shard {shard_id!r} not found")

    def ids(self) -> frozenset[str]:
        return frozenset(spec.id for spec in self.shards)

    def of_tenant(self, tenant: str) -> ShardSpec:
        # Hashes are compared as text: 16 digits each, so the order is that of the numbers, and "" sorts first.
        at = bisect_right(self.shards, hash_of(tenant), key=lambda spec: spec.range.start)
        spec = self.shards[at - 1]
        assert spec.range.has(tenant), (tenant, spec)  # `validate` has checked that there are no gaps
        return spec

    def after_split(self, shard_id: str, point: str, left: str, right: str, now_ms: int) -> "ShardMap":
        """The map with two children in place of the shard."""
        parent = self.by_id(shard_id)
        self.check_capacity()
        before, after = parent.range.split(point)
        children = [ShardSpec(left, before, now_ms, shard_id), ShardSpec(right, after, now_ms, shard_id)]
        # The children take the parent's place, so the order of ranges stays.
        at = self.shards.index(parent)
        return validate(ShardMap(self.version + 1, (*self.shards[:at], *children, *self.shards[at + 1 :])))

    def with_split_aborted(self, shard_id: str) -> "ShardMap":
        """The map in which no split of the shard that started earlier can commit."""
        return self._with(msgspec.structs.replace(spec := self.by_id(shard_id), aborted_splits=spec.aborted_splits + 1))

    def with_split_request(self, shard_id: str, split_request: SplitRequest | None) -> "ShardMap":
        """The map in which a split of the shard is requested, or with None no longer."""
        return self._with(msgspec.structs.replace(self.by_id(shard_id), split_request=split_request))

    def check_capacity(self) -> None:
        if len(self.shards) >= SHARDS_MAX:
            raise Conflict(f"{len(self.shards)} shards exist; at most {SHARDS_MAX} are allowed")

    def _with(self, changed: ShardSpec) -> "ShardMap":
        return ShardMap(self.version + 1, tuple(changed if spec.id == changed.id else spec for spec in self.shards))


def first_map(count: int, new_id: Callable[[], str], now_ms: int) -> ShardMap:
    """The map of a new cluster."""
    if not 1 <= count <= SHARDS_MAX:
        raise Invalid(f"a new cluster has 1 to {SHARDS_MAX} shards; got {count}")
    return validate(ShardMap(1, tuple(ShardSpec(new_id(), part, now_ms) for part in equal_ranges(count))))


def validate(shards: ShardMap) -> ShardMap:
    """The map itself; Invalid if its ranges have gaps or overlaps."""
    specs = shards.shards
    ends = [spec.range.end for spec in specs]
    is_whole = bool(specs) and ends[-1] == "" and [spec.range.start for spec in specs] == ["", *ends[:-1]]
    # The last range is left out, because its end is empty, which means unbounded.
    is_rising = all(spec.range.start < spec.range.end for spec in specs[:-1])
    if not is_whole or not is_rising or len(shards.ids()) != len(specs):
        raise Invalid(f"version {shards.version} of the shard map has gaps or overlaps; restore it from a backup")
    return shards


def encode_map(shards: ShardMap) -> bytes:
    """Indented JSON, because operators read and repair it by hand."""
    return msgspec.json.format(msgspec.json.encode(shards), indent=1) + b"\n"


def decode_map(text: bytes) -> ShardMap:
    try:
        shards = msgspec.json.decode(text, type=ShardMap)
    except msgspec.DecodeError as error:
        raise Invalid(f"cannot decode the shard map: {error}; restore it from a backup") from error
    if shards.format != FORMAT:
        raise Invalid(f"the shard map has format {shards.format}; this release reads only format {FORMAT}")
    return validate(shards)


class ShardMapStore(Protocol):
    """Versions of the map, each written once. All nodes see the same map under the same number."""

    async def newest(self, known: int = 0) -> ShardMap | None:
        """The newest version, or None if none is newer than `known`."""
        ...

    async def add(self, shards: ShardMap) -> None:
        """Stores a version durably; Conflict if that number exists."""
        ...


async def newest(maps: ShardMapStore, known: ShardMap) -> ShardMap:
    return await maps.newest(known.version) or known


async def try_add(changed: ShardMap, maps: ShardMapStore) -> bool:
    """Whether this version is known to be stored. If not, it may be stored nevertheless: a response can be lost."""
    try:
        await maps.add(changed)
    # Both mean: read the newest version, and see there whether this one was stored.
    except (Conflict, Unavailable):
        return False
    return True


class ShardMapCache:
    """Implements ownership's `UnitCatalog`."""

    def __init__(self, store: ShardMapStore) -> None:
        self.store = store
        self.observers: list[Callable[[], None]] = []  # called when a newer map has been read
        self._known: ShardMap | None = None

    @property
    def current(self) -> ShardMap:
        if self._known is None:
            raise Unavailable("the shard map has not been read yet; retry")
        return self._known

    async def start(self, count: int, new_id: Callable[[], str], now_ms: int) -> ShardMap:
        """Reads the map. If there is none, one of the starting nodes creates it, with `count` shards."""
        found = await self.store.newest()
        if found is None:
            found = first_map(count, new_id, now_ms)
            try:
                await self.store.add(found)
            except Conflict:  # another starting node was first
                found = await self.store.newest()
                assert found is not None, "a version that exists can be read"
        self.adopt(found)
        return found

    async def refresh(self) -> ShardMap:
        """The newest map."""
        self.adopt(await newest(self.store, self.current))
        return self.current

    def adopt(self, shards: ShardMap) -> None:
        """Accepts a map that was read or written elsewhere in this process."""
        # Reads may finish in another order than they began, so an older map must not replace a newer one.
        if self._known is None or shards.version > self._known.version:
            self._known = shards
            for observer in self.observers:
                observer()

    async def units(self) -> list[UnitSpec]:
        try:
            shards = await self.refresh()
        except Invalid as why:  # written by a later release, or damaged: the known shards are served as before
            raise Unavailable(str(why)) from why
        return [UnitSpec(spec.id, footprint_bytes=0) for spec in shards.shards]
