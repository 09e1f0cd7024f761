"""The scripts in `lua/`, put together: what each begins with, the tables as Lua, and its own body.

A script is run from its first line each time, so the tables are not told with every call but written into it:
`described` makes the one that is asked for.
"""

from collections.abc import Iterable
from importlib.resources import files

from argosy.base.backends.redis.mux import Script
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_keys import Keys
from argosy.registry.table import TableIndex

_PARTS = {
    "ask": ("index", "walk", "ask"),
    "commit": ("index", "change", "counters", "logs", "described", "commit"),
    "hello": ("index", "hello"),
    "page": ("index", "walk", "counters", "page"),
    "watch": ("index", "watch"),
}


def script(name: str, *, described: str = "") -> Script:
    """A script by its name; `described` for the one that writes."""
    folder = files(__package__) / "lua"
    text = "".join(
        described if part == "described" else (folder / f"{part}.lua").read_text(encoding="utf-8")
        for part in _PARTS[name]
    )
    return Script(name, text)


def described(keys: Keys, codecs: Iterable[TableCodec]) -> str:
    """The Lua function that makes a table's description: layout, what keys begin with, where the columns are that
    indexes use (fields, places in a packed row, or parts of the key), and the indexes by the numbers of those."""
    made = {_text(codec.table.name): _table(keys, codec) for codec in codecs}
    branches = "".join(f"  if name == {name} then return {table} end\n" for name, table in made.items())
    return f"local function described(name)\n{branches}end\n"


def _table(keys: Keys, codec: TableCodec) -> str:
    places = codec.indexed_places()
    parts = [f"[{n}] = {place[1:]}" for n, place in enumerate(places, start=1) if place.startswith("#")]
    indexes = [_index(keys, codec, index) for index in codec.indexes if not index.is_unique]
    uniques = [_index(keys, codec, index) for index in codec.indexes if index.is_unique]
    return (
        f"{{layout = {_text(codec.table.layout.value)}, stem = {_text(keys.table(codec.table))}, "
        f"is_expiring = {'true' if codec.table.expires else 'false'}, "
        f"places = {_list(map(_text, places))}, parts = {_list(parts)}, "
        f"indexes = {_list(indexes)}, uniques = {_list(uniques)}}}"
    )


def _index(keys: Keys, codec: TableCodec, index: TableIndex) -> str:
    names = codec.indexed_names
    by = _list(str(names.index(name) + 1) for name in index.by)
    order = names.index(index.order) + 1 if index.order else 0
    return f"{{name = {_text(index.name)}, stem = {_text(keys.index(codec.table, index))}, by = {by}, order = {order}}}"


def _list(items: Iterable[str]) -> str:
    return "{" + ", ".join(items) + "}"


def _text(text: str) -> str:
    assert text.isascii(), f"{text!r} would not be the same in Lua"
    assert not {"'", "\\", "\n"} & set(text), f"{text!r} would not be the same in Lua"
    return f"'{text}'"
