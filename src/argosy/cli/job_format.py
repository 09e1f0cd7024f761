"""Payloads on the command line, and times in the output of job commands."""

import json
import sys
from datetime import UTC, datetime
from typing import Any

from argosy.base.errors import Invalid


def parse_payload(text: str | None) -> Any:
    if text is None:
        return None
    return parse_json(sys.stdin.read() if text == "-" else text, "the payload")


def parse_json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"{name} is not valid JSON: {error}; a string needs quotes, as in '\"hello\"'") from None


def format_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds") if ms else "-"
