"""The kinds of definition, and the points that each adds to a match on its name.

Points are zoekt's factors times a hundred: classes before functions before variables, with an order per language where
zoekt has one. In Go an exported name gets half a point more, and a definition in a test a fifth less.
"""

from functools import lru_cache

from argosy.search.documents import Category
from argosy.search.languages.categories import category_of_path

# Append only: indexes store the position of a kind.
KINDS = (
    "other", "function", "method", "class", "struct", "enum", "interface", "type", "trait", "module", "macro",
    "constant", "variable", "field", "union", "enumerator", "namespace", "package", "object", "implementation",
    "property", "constructor", "method spec", "alias", "singleton method", "accessor", "record", "annotation",
    "protocol", "extension", "event", "delegate", "operator", "target", "message", "service", "rpc", "table", "view",
    "index", "trigger", "procedure", "resource", "data source", "output", "chapter", "section", "subsection",
    "instance", "concept", "label", "heading",
)  # fmt: skip
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}

# Zoekt's factor 1 for a kind without a value.
OTHER_POINTS = 100
EXPORTED_POINTS = 50
_TEST_FACTOR = 0.8

_GENERIC = {
    "class": 1000, "struct": 950, "enum": 900, "interface": 800, "type": 800, "function": 700, "method": 700,
    "field": 550, "constant": 500, "variable": 400,
    # Kinds that zoekt's table lacks have the value of the nearest kind.
    "trait": 800, "protocol": 800, "union": 950, "record": 950, "object": 800, "alias": 800, "annotation": 800,
    "message": 950, "service": 800, "table": 950, "view": 800, "concept": 800, "module": 700, "namespace": 500,
    "constructor": 700, "method spec": 700, "singleton method": 700, "rpc": 700, "macro": 700, "procedure": 700,
    "target": 700, "resource": 700, "data source": 500, "property": 550, "accessor": 550, "event": 550,
    "delegate": 800, "enumerator": 500, "output": 400, "extension": 400, "instance": 400,
}  # fmt: skip
_BY_LANGUAGE: dict[str, dict[str, int]] = {
    "Java": {"class": 1000, "enum": 900, "interface": 800, "method": 700, "field": 600, "enumerator": 500},
    "Kotlin": {
        "class": 1000, "interface": 900, "method": 800, "function": 800, "alias": 700, "constant": 600, "variable": 500
    },
    "Go": {
        "interface": 1000, "struct": 900, "type": 900, "alias": 900, "method spec": 850, "method": 800, "function": 800,
        "field": 700, "constant": 600, "variable": 500,
    },
    "C++": {
        "class": 1000, "enum": 900, "function": 800, "method": 800, "struct": 700, "union": 600, "alias": 500,
        "type": 500, "field": 400, "variable": 300,
    },
    "Scala": {
        "class": 1000, "trait": 900, "interface": 900, "object": 800, "function": 700, "method": 700, "type": 600,
        "alias": 600, "variable": 500, "package": 400,
    },
    "Python": {"class": 1000, "function": 800, "method": 800, "field": 400, "variable": 300},
    "Ruby": {
        "class": 1000, "method": 900, "alias": 800, "module": 700, "singleton method": 600, "constant": 500,
        "accessor": 400,
    },
    "PHP": {
        "class": 1000, "interface": 900, "function": 800, "method": 800, "trait": 700, "constant": 600,
        "namespace": 500, "alias": 400, "variable": 300,
    },
    "GraphQL": {"type": 1000},
    "Markdown": {"chapter": 400, "section": 300, "subsection": 200},
}  # fmt: skip


def points(language: str, kind: str, path: bytes, name: bytes = b"") -> int:
    """The points of a definition, 0 to 1,050. `name` is used to detect exported names in Go."""
    worth = _BY_LANGUAGE.get(language, _GENERIC).get(kind) or _GENERIC.get(kind, OTHER_POINTS)
    if language == "Go" and name[:1].isupper():
        worth += EXPORTED_POINTS
    return int(worth * _TEST_FACTOR) if _is_test(path) else worth


# A builder asks once per kind of a file, so a few paths suffice.
@lru_cache(maxsize=64)
def _is_test(path: bytes) -> bool:
    return bool(category_of_path(path) & Category.TEST)
