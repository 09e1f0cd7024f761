"""Who else holds exactly the file that a page shows, as a content index says."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from markupsafe import Markup

from argosy.gateway.ui.highlight import marked

OTHERS_MAX = 20  # named on the page; the rest is counted
VERSION_CHARS = 10


@dataclass(frozen=True, slots=True)
class FileHolder:
    """Somebody who has the content: a repository, or whatever its publisher calls it. `url`: its page here, if any."""

    name: str
    version: str = ""
    url: str = ""


class HolderLookup(Protocol):
    async def holders(self, digest: bytes) -> Sequence[FileHolder]:
        """Those who hold what has this sha2-256."""
        ...


@dataclass(frozen=True, slots=True)
class OtherView:
    name: Markup  # of strangers: what directs or hides text is written out
    url: str


@dataclass(frozen=True, slots=True)
class OthersView:
    shown: tuple[OtherView, ...] = ()
    more: int = 0


def others_view(holders: Iterable[FileHolder], repository: str) -> OthersView:
    """All but the repository on the page, each once however many nodes hold it."""
    others = sorted({(_name(each), each.url) for each in holders if each.name != repository})
    shown = tuple(OtherView(marked(name, []), url) for name, url in others[:OTHERS_MAX])
    return OthersView(shown, len(others) - len(shown))


def _name(holder: FileHolder) -> str:
    return f"{holder.name}@{holder.version[:VERSION_CHARS]}" if holder.version else holder.name
