"""URLs of files and commits from the URL templates of repositories.

The templates are a small part of Go's: fields (`{{.Version}}`) and `URLJoinPath` with quoted texts and fields, which
escapes what it joins. A field that stands alone is escaped, too: it is always part of an address here. Whatever else
stands in braces is left out rather than guessed at.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote

_ACTION = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\.\w+)|(\S+)')
_ESCAPED = re.compile(r"\\(.)")


def evaluated(template: str, fields: Mapping[str, str]) -> str:
    """Evaluate a template; fields are named without their dot."""
    return _ACTION.sub(lambda action: _action(action[1], fields), template)


def file_url(template: str, line_template: str, *, version: str, path: str, branch: str, line: int = 0) -> str:
    """The URL of a file or a line; empty if the repository has no template."""
    if not template:
        return ""
    url = evaluated(template, {"Version": version, "Path": path, "Branch": branch})
    return url + evaluated(line_template, {"LineNumber": str(line)}) if line else url


def _action(action: str, fields: Mapping[str, str]) -> str:
    words = list(_WORD.finditer(action))
    if len(words) == 1 and words[0][2]:
        return _escaped(fields, words[0][2])
    if not words or words[0][3] != "URLJoinPath" or any(word[3] for word in words[1:]):
        return ""
    parts = [_part(word, fields) for word in words[1:]]
    return "/".join(part.strip("/") if i else part.rstrip("/") for i, part in enumerate(parts) if part)


def _part(word: re.Match[str], fields: Mapping[str, str]) -> str:
    if word[2]:
        return _escaped(fields, word[2])
    return _ESCAPED.sub(r"\1", word[1])


def _escaped(fields: Mapping[str, str], name: str) -> str:
    return quote(fields.get(name[1:], ""), safe="/", errors="surrogateescape")
