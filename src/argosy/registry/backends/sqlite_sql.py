"""The SQL that is written by hand, from the files in `sql/`."""

import re
from importlib.resources import files

_NAMED = re.compile(r"^-- name: (\w+)\n(.*?);$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r" *--.*$", re.MULTILINE)


def _text(name: str) -> str:
    return (files("argosy.registry.backends") / "sql" / name).read_text(encoding="utf-8")


SCHEMA = [part.strip() for part in _COMMENT.sub("", _text("schema.sql")).split(";") if part.strip()]
SQL: dict[str, str] = dict(_NAMED.findall(_text("statements.sql")))
