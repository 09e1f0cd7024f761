"""Definitions as lines to read: `method Stack.push` is a method push that lies in Stack."""

from textwrap import dedent

from argosy.search.symbols.extract import definitions


def outline_of(language: str, text: str | bytes) -> list[str]:
    """What is defined in a text, in order."""
    content = dedent(text).encode() if isinstance(text, str) else text
    found = definitions(language, content)
    names = [content[each.start : each.start + each.length].decode("utf-8", "replace") for each in found]
    lines = []
    for each, name in zip(found, names, strict=True):
        lines.append(f"{each.kind} {names[each.parent]}.{name}" if each.parent >= 0 else f"{each.kind} {name}")
    return lines


def expected(text: str) -> list[str]:
    """A golden list, one definition a line."""
    return [line.strip() for line in text.strip().splitlines()]
