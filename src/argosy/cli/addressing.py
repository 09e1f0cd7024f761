"""Addresses as people type them: a path is meant from where they stand."""

import os

import click

from argosy.base.errors import NotFound
from argosy.search.catalog.addresses import Address, address_of

_PATHS = (".", "/", "~")


def typed(text: str) -> Address:
    """The repository that somebody names on the command line; what exists on this machine is meant before a URL."""
    if text.startswith(_PATHS) or os.path.exists(text):
        text = os.path.abspath(os.path.expanduser(text))
    address = address_of(text, allow_local=True)
    if address.is_local and not os.path.exists(address.path):
        raise NotFound(f"there is no folder or repository {address.path!r}: check the path")
    if address.note:
        click.echo(f"note: {address.note}", err=True)
    return address
