"""Configuration of a pool: a document of JSON or TOML with the keys of storetheindex's `Assignment`.

    {"IndexerPool": [{"AdminURL": "http://10.0.0.1:3002", "FindURL": "http://10.0.0.1:3000",
                      "IngestURL": "http://10.0.0.1:3001", "PresetPeers": []}], "Replication": 2}

A whole assigner configuration with `Assignment` among its sections is accepted too; its process and gossip settings
are ignored. Keys are case-insensitive, as there. Missing keys take their value from the settings. An unknown key is
an error, because a mistyped one would silently mean the default.

An indexer is identified by its admin URL. No URL may belong to two indexers; one indexer may serve all three APIs at
one.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from argosy.base.errors import Invalid
from argosy.ipni.formats.peer import parse_peer
from argosy.ipni.indexer_wire import normalize_url
from argosy.ownership.assigner import PoolPolicy

T = TypeVar("T")

# Every poll queries all of them and every announcement sorts them.
INDEXERS_MAX = 1_000
FORWARDS_MAX = 100
# Sections and keys of storetheindex that mean nothing here: accepted, so that its file works unchanged.
_OTHER_SECTIONS = {"version", "identity", "bootstrap", "daemon", "logging", "peering"}
_GOSSIP_KEYS = {"pubsubtopic", "resendpubsub"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class PoolEntry:
    """One indexer of the pool; `presets` are publishers that only it, and others that name them, may hold."""

    admin_url: str
    find_url: str
    ingest_url: str
    presets: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Configuration:
    """The pool and its rules; all of it may change while the assigner runs."""

    entries: tuple[PoolEntry, ...] = ()
    replication: int = 1
    preset_replication: int = 1
    is_open: bool = True
    exceptions: frozenset[str] = frozenset()
    forward_urls: tuple[str, ...] = ()
    poll_s: float = 300.0  # 0 disables polling
    is_resending: bool = True
    is_filtering: bool = False

    def __post_init__(self) -> None:
        if len(self.entries) > INDEXERS_MAX:
            raise Invalid(f"the pool has {len(self.entries)} indexers; the maximum is {INDEXERS_MAX}")
        if len(self.forward_urls) > FORWARDS_MAX:
            raise Invalid(f"there are {len(self.forward_urls)} forward URLs; the maximum is {FORWARDS_MAX}")
        owners: dict[str, PoolEntry] = {}
        for entry in self.entries:
            # A set: one indexer may serve its three APIs at one URL.
            for url in {entry.admin_url, entry.find_url, entry.ingest_url}:
                if owners.setdefault(url, entry) is not entry:
                    raise Invalid(f"{url} belongs to two indexers of the pool")
        # Built once here, so that an invalid policy stops the start and not the first announcement.
        self.policy()

    def policy(self) -> PoolPolicy:
        """The policy for `ownership.assigner`, where an indexer's id is its admin URL."""
        presets: dict[str, tuple[str, ...]] = {}
        for entry in self.entries:
            for publisher in entry.presets:
                presets[publisher] = (*presets.get(publisher, ()), entry.admin_url)
        return PoolPolicy(self.replication, self.preset_replication, presets, self.is_open, self.exceptions)


def parse(text: str, defaults: Configuration, *, is_toml: bool = False) -> Configuration:
    """Parses the document; `defaults` supplies what it omits."""
    try:
        node = tomllib.loads(text) if is_toml else msgspec.json.decode(text)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError) as why:
        raise Invalid(f"the pool file is not {'TOML' if is_toml else 'JSON'}: {why}") from None
    table = _fields(node, "the pool file")
    if "assignment" in table:
        _check_known(table, _OTHER_SECTIONS | {"assignment"}, "the pool file")
        table = _fields(table["assignment"], "Assignment")
    _check_known(table, _GOSSIP_KEYS | set(_READERS) | {"policy"}, "Assignment")
    values = {name: read(table[key]) for key, (name, read) in _READERS.items() if table.get(key) is not None}
    if table.get("policy") is not None:
        values |= _policy(table["policy"])
    return Configuration(**{**{name: getattr(defaults, name) for name in Configuration.__dataclass_fields__}, **values})


def seconds(value: object, key: str = "PollInterval") -> float:
    """Parses a duration such as `"5m0s"`, or a number of seconds."""
    # bool is an int in Python: `true` as an interval is a mistake.
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if value in ("0", ""):
        return 0.0
    if isinstance(value, str) and _DURATION.sub("", value) == "":
        return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(value))
    raise Invalid(f"{key} must be a duration such as '5m0s' or '30s', not {value!r}")


def forward_urls(urls: Iterable[str]) -> tuple[str, ...]:
    """The URLs without duplicates, in order."""
    return tuple(dict.fromkeys(normalize_url(url) for url in urls))


def _fields(node: object, where: str) -> Mapping[str, Any]:
    if not isinstance(node, dict):
        raise Invalid(f"{where} should be a table of keys, not {str(node)[:80]!r}")
    return {str(key).lower(): value for key, value in node.items()}


def _check_known(table: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise Invalid(f"{where} has an unknown key {unknown[0]!r}; known keys: {', '.join(sorted(known))}")


def _expect(value: object, of: type[T], key: str) -> T:
    # Exact types, for the same reason as in `seconds`: isinstance would take true for 1.
    if type(value) is not of:
        raise Invalid(f"{key} should be a {of.__name__}, not {value!r}")
    found: T = value
    return found


def _texts(value: object, key: str) -> list[str]:
    return [_expect(each, str, key) for each in _expect(value or [], list, key)]


def _count(key: str, value: object) -> int:
    # 0 means unset, as in storetheindex.
    count = _expect(value, int, key)
    if count < 0:
        raise Invalid(f"{key} must be at least 1, not {count}")
    return count or 1


def _entry(node: object) -> PoolEntry:
    table = _fields(node, "an indexer of the pool")
    _check_known(table, {"adminurl", "findurl", "ingesturl", "presetpeers"}, "an indexer of the pool")
    presets = frozenset(parse_peer(peer) for peer in _texts(table.get("presetpeers"), "PresetPeers"))
    return PoolEntry(_url(table, "AdminURL"), _url(table, "FindURL"), _url(table, "IngestURL"), presets)


def _url(table: Mapping[str, Any], key: str) -> str:
    if not table.get(key.lower()):
        raise Invalid(f"an indexer of the pool has no {key}: {dict(table)}")
    return normalize_url(_expect(table[key.lower()], str, key))


def _policy(node: object) -> dict[str, Any]:
    table = _fields(node, "Policy")
    _check_known(table, {"allow", "except"}, "Policy")
    found: dict[str, Any] = {}
    if table.get("allow") is not None:
        found["is_open"] = _expect(table["allow"], bool, "Policy.Allow")
    if table.get("except") is not None:
        found["exceptions"] = frozenset(parse_peer(peer) for peer in _texts(table["except"], "Policy.Except"))
    return found


_READERS: Mapping[str, tuple[str, Any]] = {
    "indexerpool": ("entries", lambda v: tuple(_entry(each) for each in _expect(v, list, "IndexerPool"))),
    "replication": ("replication", lambda v: _count("Replication", v)),
    "presetreplication": ("preset_replication", lambda v: _count("PresetReplication", v)),
    "forwardannounceurls": ("forward_urls", lambda v: forward_urls(_texts(v, "ForwardAnnounceURLs"))),
    "pollinterval": ("poll_s", seconds),
    "resendhttp": ("is_resending", lambda v: _expect(v, bool, "ResendHttp")),
    "filterips": ("is_filtering", lambda v: _expect(v, bool, "FilterIPs")),
}
