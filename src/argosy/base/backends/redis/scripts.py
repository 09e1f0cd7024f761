"""Lua scripts: files of the package that owns them, known to the server by their hash."""

from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha1
from importlib.resources import files


@dataclass(frozen=True)
class Script:
    name: str
    text: str

    @cached_property
    def digest(self) -> str:
        """The hash by which a server knows the script: EVALSHA's first argument."""
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def load_script(package: str, name: str, *, prelude: tuple[str, ...] = (), header: str = "") -> Script:
    """The script `lua/<name>.lua` of a package, after a header and other files that it shares with its siblings."""
    folder = files(package) / "lua"
    parts = [(folder / f"{part}.lua").read_text(encoding="utf-8") for part in (*prelude, name)]
    return Script(name, "".join([header, *parts]))
