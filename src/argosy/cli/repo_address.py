"""Repository addresses on the command line: URLs, and paths relative to the working directory."""

import os
from collections.abc import Sequence

import click

from argosy.base.errors import ArgosyError, Invalid, NotFound
from argosy.search.catalog.addresses import Address, address_of

_PATHS = (".", "/", "~")


def parse_address(text: str) -> Address:
    """The repository that an argument names. A path that exists takes precedence over a URL."""
    if text.startswith(_PATHS) or os.path.exists(text):
        text = os.path.abspath(os.path.expanduser(text))
    elif _is_relative_path(text):
        raise NotFound(f"{text!r} not found: no such directory, and not a URL")
    address = address_of(text, allow_local=True)
    if address.is_local and not os.path.exists(address.path):
        raise NotFound(f"{address.path!r} not found: no such directory or repository")
    if address.note:
        click.echo(f"note: {address.note}", err=True)
    return address


def parse_sources(texts: Sequence[str]) -> list[Address]:
    """The arguments of `argosy up`; raises one Invalid that lists every invalid argument."""
    found, problems = [], []
    for text in texts:
        try:
            address = parse_address(text)
            _check_readable(address)
        except ArgosyError as why:
            problems.append(str(why))
        else:
            found.append(address)
    if len(problems) > 1:
        raise Invalid("\n  ".join([f"{len(problems)} arguments are invalid:", *problems]))
    if problems:
        raise Invalid(problems[0])
    return found


def _check_readable(address: Address) -> None:
    if not address.is_local:
        return
    if not os.path.isdir(address.path):
        raise Invalid(f"{address.path!r} is not a directory; pass the directory that contains it")
    if not os.access(address.path, os.R_OK | os.X_OK):
        raise Invalid(f"cannot read {address.path!r}: permission denied")


def _is_relative_path(text: str) -> bool:
    """Whether the text cannot be a URL: it has no scheme, no colon and no host with a dot before a slash, or its first
    part exists in the working directory."""
    head = text.partition("/")[0]
    if head and os.path.lexists(head):  # `notes.txt/x`, where notes.txt exists here
        return True
    return bool(text.strip()) and ":" not in text and not text.startswith("-") and ("/" not in text or "." not in head)
