"""Syntax errors of queries, with position and suggestion."""

from unicodedata import combining, east_asian_width

from argosy.base.errors import Invalid

SHOWN_CHARACTERS_MAX = 100  # of a query, around the place that is pointed at
MESSAGE_CHARACTERS_MAX = 300  # it quotes the query, and a query can be long


class QuerySyntaxError(Invalid):
    """A query that cannot be read. `position` counts the characters of `text` before the place that is wrong."""

    def __init__(self, message: str, *, text: str, position: int) -> None:
        assert 0 <= position <= len(text), (position, len(text))
        super().__init__(f"{_truncate_middle(message)}, at column {position + 1}")
        self.text = text
        self.position = position

    def pointed(self) -> str:
        """The part of the query that is wrong, with a caret below the position."""
        first = max(0, self.position - SHOWN_CHARACTERS_MAX // 2)
        shown = self.text[first : first + SHOWN_CHARACTERS_MAX]
        # Whatever moves the cursor on its own, or lies outside of text, would put the caret in the wrong place.
        line = "".join(each if each.isprintable() else " " for each in shown)
        return f"{line}\n{' ' * _columns(line[: self.position - first])}^"


def _columns(text: str) -> int:
    """How wide it is on a terminal: signs of East Asia take two columns, marks on a letter none."""
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def _truncate_middle(message: str) -> str:
    """The message without its middle: what happened stands at the beginning, what to do at the end."""
    half = MESSAGE_CHARACTERS_MAX // 2
    return message if len(message) <= MESSAGE_CHARACTERS_MAX else f"{message[:half]} … {message[-half:]}"
