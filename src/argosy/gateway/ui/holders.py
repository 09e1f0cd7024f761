"""Other repositories with an identical file, from the content index."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from markupsafe import Markup

from argosy.gateway.ui.highlight import marked

OTHERS_MAX = 20  # named on the page; the rest are counted
VERSION_CHARS = 10


@dataclass(frozen=True, slots=True)
class FileHolder:
    """A repository that has the content, or the label its publisher gave. `url`: its page here, if any."""

    name: str
    version: str = ""
    url: str = ""


class HolderLookup(Protocol):
    async def holders(self, digest: bytes) -> Sequence[FileHolder]:
        """Holders of the content with this SHA-256 digest."""
        ...


@dataclass(frozen=True, slots=True)
class OtherView:
    name: Markup  # from other publishers: bidirectional and invisible characters are escaped
    url: str


@dataclass(frozen=True, slots=True)
class OthersView:
    shown: tuple[OtherView, ...] = ()
    more: int = 0


def others_view(holders: Iterable[FileHolder], repository: str) -> OthersView:
    """All holders but the repository of the page, each once."""
    others = sorted({(_name(each), each.url) for each in holders if each.name != repository})
    shown = tuple(OtherView(marked(name, []), url) for name, url in others[:OTHERS_MAX])
    return OthersView(shown, len(others) - len(shown))


def _name(holder: FileHolder) -> str:
    return f"{holder.name}@{holder.version[:VERSION_CHARS]}" if holder.version else holder.name
