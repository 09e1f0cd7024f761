"""How commands about the content index reach an indexer: the options that name it, and the client behind them."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.errors import Invalid
from argosy.cli.output import json_option
from argosy.cli.settings import config_option, load

if TYPE_CHECKING:
    from argosy.ipni.indexer_client import IndexerClient

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class Reach:
    """Which indexer."""

    url: str | None
    ingest_url: str | None
    admin_url: str | None
    token: str | None
    config: Path | None

    def client(self) -> "IndexerClient":
        """What is not said is taken from the settings: the indexer that they would run."""
        from argosy.app.settings import NodeSettings
        from argosy.ipni.indexer_client import IndexerClient
        from argosy.ipni.settings import IndexerHttpSettings

        loaded = load(self.config)
        here = loaded.get(IndexerHttpSettings)

        def at(port: int | None, given: str | None) -> str:
            named = given or self.url
            return checked_url(named) if named else f"http://{here.host}:{here.port if port is None else port}"

        return IndexerClient(
            at(here.admin_port, self.admin_url),
            at(None, None),
            at(here.ingest_port, self.ingest_url),
            token=self.token or loaded.get(NodeSettings).admin_token,
        )

    def ask(self, question: "Callable[[IndexerClient], Awaitable[T]]") -> T:
        """One thing, of a client that is opened for it."""

        async def asked() -> T:
            async with self.client() as client:
                return await question(client)

        return asyncio.run(asked())


def checked_url(text: str) -> str:
    """The URL itself, if it is one of HTTP: `host:port` alone is what people type, and nothing that can be asked."""
    if not text.startswith(("http://", "https://")) or not text.partition("://")[2]:
        raise Invalid(f"{text!r} is no URL: write http://host:port or https://host")
    return text


_OPTIONS = (
    click.option("--url", help="The indexer; by default the one of the settings ipni_http."),
    click.option("--ingest-url", help="Where it takes announcements, if that is elsewhere."),
    click.option("--admin-url", help="Where its admin API is, if that is elsewhere."),
    click.option("--token", help="Bearer token of the admin API; by default the setting node.admin_token."),
    config_option,
    json_option,
)


def reach_options(command: C) -> Any:
    """Adds the options; the command gets them as `reach`, and `as_json`."""

    @functools.wraps(command)
    def reaching(
        *args: Any,
        url: str | None,
        ingest_url: str | None,
        admin_url: str | None,
        token: str | None,
        config: Path | None,
        **rest: Any,
    ) -> Any:
        return command(*args, reach=Reach(url, ingest_url, admin_url, token, config), **rest)

    decorated: Any = reaching
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
