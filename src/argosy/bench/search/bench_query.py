"""One query of the benchmark, independent of the program that runs it.

Case follows Argosy's rule: it matters to a word with an upper-case letter. Only file contents are searched, because the
peers search nothing else.
"""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from argosy.search.query import format_query
from argosy.search.query.tree import And, Query, Regexp, Scope, Substring

Kind: TypeAlias = Literal["rare", "identifier", "common", "and", "short", "regex", "filter", "zero"]
# `count`: all matches counted. `top`: the best files with their lines, as a results page shows them.
Form: TypeAlias = Literal["count", "top"]
Measure: TypeAlias = Literal["cpu", "wall"]

KINDS: tuple[Kind, ...] = ("rare", "identifier", "common", "and", "short", "regex", "filter", "zero")
FORMS: tuple[Form, ...] = ("count", "top")
MEASURES: tuple[Measure, ...] = ("cpu", "wall")
FILE_LINES_MAX = 10  # of one file, in the form "top"
CONTEXT_LINES = 1


@dataclass(frozen=True)
class FileFilter:
    """Only files below this directory, with names that end in this suffix."""

    directory: str = ""
    suffix: str = ""

    @property
    def regex(self) -> str:
        begin = f"^{re.escape(self.directory)}/" if self.directory else ""
        end = f"{re.escape(self.suffix)}$" if self.suffix else ""
        return f"{begin}.*{end}" if begin and end else begin + end

    @property
    def glob(self) -> str:
        """The leading slash anchors it at the top; `**` is any number of directories."""
        return f"{'/' + self.directory if self.directory else ''}/**/*{self.suffix}"


@dataclass(frozen=True)
class BenchQuery:
    """Files that contain every one of the words."""

    kind: Kind
    words: tuple[str, ...]
    is_regex: bool = False
    files: FileFilter | None = None

    @property
    def text(self) -> str:
        """The query as a person would type it."""
        return format_query(self._tree())

    def _tree(self) -> Query:
        leaf = Regexp if self.is_regex else Substring
        leaves: list[Query] = [leaf(word, is_case_sensitive(word), Scope.CONTENT) for word in self.words]
        if self.files is not None:
            leaves.append(Regexp(self.files.regex, True, Scope.FILE_NAME))
        return leaves[0] if len(leaves) == 1 else And(tuple(leaves))


def is_case_sensitive(word: str) -> bool:
    plain = re.sub(r"\\.", "", word)  # \S and \W are classes of the regex syntax, not upper-case letters of the text
    return plain != plain.lower()
