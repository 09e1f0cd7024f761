"""The layout as a file, in JSON or TOML.

    {"version": 2, "replicas": 2,
     "nodes": {"a": "http://10.0.0.1:3010", "b": "http://10.0.0.2:3010", "c": "http://10.0.0.3:3010"},
     "former": {"replicas": 2, "nodes": {"a": "http://10.0.0.1:3010", "b": "http://10.0.0.2:3010"}}, "lost": []}

`former` is there while slots move. A key that nobody knows is an error, for a mistyped one would be a silent default.
"""

import tomllib

import msgspec

from argosy.base.errors import Invalid
from argosy.ipni.admin.urls import checked_url
from argosy.ipni.keyspace.layout import KeyspaceLayout, NodeSet


class _Side(msgspec.Struct, forbid_unknown_fields=True):
    nodes: dict[str, str]
    replicas: int = 1


class _Layout(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    nodes: dict[str, str]
    replicas: int = 1
    former: _Side | None = None
    lost: list[str] = []


def parse(text: str, *, is_toml: bool = False) -> KeyspaceLayout:
    try:
        told = msgspec.convert(tomllib.loads(text), _Layout) if is_toml else msgspec.json.decode(text, type=_Layout)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError) as why:
        raise Invalid(f"the layout file is not what it should be: {why}") from None
    former = _side(told.former.nodes, told.former.replicas) if told.former else None
    return KeyspaceLayout(told.version, _side(told.nodes, told.replicas), former, frozenset(told.lost))


def spell(layout: KeyspaceLayout) -> str:
    """The file of a layout, as JSON."""
    former = _Side(dict(layout.former.nodes), layout.former.replicas) if layout.former else None
    told = _Layout(layout.version, dict(layout.now.nodes), layout.now.replicas, former, sorted(layout.lost))
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n"


def _side(nodes: dict[str, str], replicas: int) -> NodeSet:
    return NodeSet({name: checked_url(url) for name, url in sorted(nodes.items())}, replicas)
