"""What commands about jobs read and show: payloads as JSON, and times."""

import json
import sys
from datetime import UTC, datetime
from typing import Any

from argosy.base.errors import Invalid


def parsed_payload(text: str | None) -> Any:
    if text is None:
        return None
    return parsed(sys.stdin.read() if text == "-" else text, "the payload")


def parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"{what} is no JSON ({error}): a text needs quotes, as in '\"hello\"'") from None


def told_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds") if ms else "-"
