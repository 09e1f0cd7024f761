"""Addresses as people type them: a path is relative to the working directory."""

import os
from collections.abc import Sequence

import click

from argosy.base.errors import ArgosyError, Invalid, NotFound
from argosy.search.catalog.addresses import Address, address_of

_PATHS = (".", "/", "~")


def typed(text: str) -> Address:
    """The repository that somebody names on the command line; what exists on this machine is meant before a URL."""
    if text.startswith(_PATHS) or os.path.exists(text):
        text = os.path.abspath(os.path.expanduser(text))
    elif _is_relative_path(text):
        raise NotFound(f"{text!r} not found: there is no such folder here, and it is not a URL")
    address = address_of(text, allow_local=True)
    if address.is_local and not os.path.exists(address.path):
        raise NotFound(f"there is no folder or repository {address.path!r}: check the path")
    if address.note:
        click.echo(f"note: {address.note}", err=True)
    return address


def parse_sources(texts: Sequence[str]) -> list[Address]:
    """What `argosy up` is to serve; one Invalid that lists every argument that cannot be served."""
    found, problems = [], []
    for text in texts:
        try:
            address = typed(text)
            _check_readable(address)
        except ArgosyError as why:
            problems.append(str(why))
        else:
            found.append(address)
    if len(problems) > 1:
        raise Invalid("\n  ".join([f"{len(problems)} of the arguments cannot be served:", *problems]))
    if problems:
        raise Invalid(problems[0])
    return found


def _check_readable(address: Address) -> None:
    if not address.is_local:
        return
    if not os.path.isdir(address.path):
        raise Invalid(f"{address.path!r} is not a folder: give the folder it is in")
    if not os.access(address.path, os.R_OK | os.X_OK):
        raise Invalid(f"{address.path!r} cannot be read (permission denied): check its permissions")


def _is_relative_path(text: str) -> bool:
    """A word that can be no URL: no scheme, no host with a dot before a slash, no colon; or one that begins here."""
    head = text.partition("/")[0]
    if head and os.path.lexists(head):  # `notes.txt/x`, where notes.txt is a file or a folder here
        return True
    return bool(text.strip()) and ":" not in text and not text.startswith("-") and ("/" not in text or "." not in head)
