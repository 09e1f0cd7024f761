"""Templates, HTTP headers of every page, and the content of the help page.

Templates escape all values, except lines of code that `highlight` has escaped already. Pages load nothing from other
hosts and contain no inline scripts or styles; the content security policy forbids both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from argosy.gateway.ui.links import file_url, folder_url, search_url
from argosy.gateway.ui.number_format import age_text, count_text, duration_text, size_text, version_text
from argosy.search.query.fields import Field

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # queries must not leak to other sites
    "cache-control": "no-store",  # fleet and indexes change
}


class Pages:
    """The Jinja environment; `asset` maps the name of a static file to its URL."""

    def __init__(self, asset: Callable[[str], str]) -> None:
        self._environment = Environment(
            loader=PackageLoader("argosy.gateway.ui"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            # A misspelt name fails, instead of rendering nothing.
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # Templates are part of the package; checking for changes would cost a stat per page.
            auto_reload=False,
        )
        self._environment.filters |= {
            "size": size_text,
            "count": count_text,
            "duration": duration_text,
            "age": age_text,
            "version": version_text,
        }
        self._environment.globals |= {
            "asset": asset,
            "search_url": search_url,
            "folder_url": folder_url,
            "file_url": file_url,
        }

    def render(self, template: str, **values: Any) -> bytes:
        """Render a page. Bytes that are not UTF-8, as in odd file names, become replacement characters."""
        page = self._environment.get_template(template).render(values)
        return page.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


@dataclass(frozen=True, slots=True)
class HelpExample:
    syntax: tuple[str, ...]
    meaning: str
    example: str


# Plain words.
WORDS = (
    HelpExample(("word",), "in the content of a file, or else in its name; a regular expression (RE2)", r"err.*nil"),
    HelpExample(('"two words"',), "with blanks inside quotes", '"func main"'),
    HelpExample(("one two",), "both, anywhere in the file", "lease expired"),
    HelpExample(("one or two",), "either; words side by side bind more tightly", "mutex or semaphore"),
    HelpExample(("-word",), "not", "lease -test"),
    HelpExample(("( … )",), "a group", "(read or write) -cache"),
    HelpExample(("Upper",), "a capital letter makes a word case-sensitive; see case:", "Lease"),
)
MEANINGS = {
    Field.CONTENT: ("only in the content", "content:lease"),
    Field.FILE: ("only in the path of the file", r"file:\.py$"),
    Field.LANGUAGE: ("files of this language, by any of its names", "lang:python"),
    Field.REPO: ("repositories whose name matches; alone it lists them", "repo:."),
    Field.SYMBOL: ("names of definitions", "sym:^parse"),
    Field.BRANCH: ("files on branches whose name contains this; HEAD is the first", "branch:HEAD"),
    Field.CASE: ("yes, no, or auto: a capital letter decides", "case:yes lease"),
    Field.TYPE: ("what to list: filematch, filename or repo", "type:repo lease"),
    Field.COUNT: ("how many files at most, or all", "count:200 lease"),
    Field.PATTERN_TYPE: ("how words are read: regex or literal", "patterntype:literal f(x)"),
    Field.REGEX: ("a regular expression, even where words are literal", "regex:^class"),
    Field.ARCHIVED: ("repositories that are archived, or not", "archived:no repo:."),
    Field.FORK: ("repositories that are forks, or not", "fork:no repo:."),
    Field.PUBLIC: ("repositories that are public, or not", "public:yes repo:."),
    Field.META: ("repositories with such a value in their metadata", "meta.team:search"),
    Field.ALIAS: ("the repository with this former or alternative name", "alias:old-name"),
}
EXAMPLES = ("sym:main", r"lang:python class\s+\w+Error", "file:README", "repo:. type:repo")


def field_examples() -> tuple[HelpExample, ...]:
    return tuple(
        HelpExample(tuple(f"{name}{field.label[len(field.names[0]) :]}" for name in field.names), meaning, example)
        for field, (meaning, example) in MEANINGS.items()
    )
