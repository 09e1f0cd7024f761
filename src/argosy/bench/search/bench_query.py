"""One question, and what each program must be told to be asked it.

Case follows our own rule: it matters to a word that holds an upper-case letter. Only contents are asked for, since that
is what the peers look at.
"""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from argosy.search.query import format_query
from argosy.search.query.tree import And, Query, Regexp, Scope, Substring

Kind: TypeAlias = Literal["rare", "identifier", "common", "and", "short", "regex", "filter", "zero"]
# All matches counted; or the best files with their lines, as a person is shown them.
Form: TypeAlias = Literal["count", "top"]

KINDS: tuple[Kind, ...] = ("rare", "identifier", "common", "and", "short", "regex", "filter", "zero")
FORMS: tuple[Form, ...] = ("count", "top")
FILE_LINES_MAX = 10  # of one file, in the form "top"
CONTEXT_LINES = 1


@dataclass(frozen=True)
class Place:
    """Only files below this folder, with names that end so."""

    folder: str = ""
    suffix: str = ""

    @property
    def regex(self) -> str:
        begin = f"^{re.escape(self.folder)}/" if self.folder else ""
        end = f"{re.escape(self.suffix)}$" if self.suffix else ""
        return f"{begin}.*{end}" if begin and end else begin + end

    @property
    def glob(self) -> str:
        """With the slash in front that ties it to the top; `**` is any number of folders."""
        return f"{'/' + self.folder if self.folder else ''}/**/*{self.suffix}"


@dataclass(frozen=True)
class Ask:
    """Files that hold every one of the words."""

    kind: Kind
    words: tuple[str, ...]
    is_regex: bool = False
    place: Place | None = None

    @property
    def text(self) -> str:
        """What a person would type."""
        return format_query(self._tree())

    def _tree(self) -> Query:
        leaf = Regexp if self.is_regex else Substring
        leaves: list[Query] = [leaf(word, is_cased(word), Scope.CONTENT) for word in self.words]
        if self.place is not None:
            leaves.append(Regexp(self.place.regex, True, Scope.FILE_NAME))
        return leaves[0] if len(leaves) == 1 else And(tuple(leaves))


def is_cased(word: str) -> bool:
    """Whether case matters to it. What follows a backslash is the regex's, not a letter somebody wrote."""
    plain = re.sub(r"\\.", "", word)
    return plain != plain.lower()
