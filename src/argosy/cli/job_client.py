"""How commands about jobs reach a broker: the options that name it, and the client behind them."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import click

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.cli.output import json_option, status
from argosy.cli.settings import config_option, load

if TYPE_CHECKING:
    from argosy.jobs.sdk import JobsClient
    from argosy.jobs.settings import JobsSettings

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


@dataclass(frozen=True)
class Reach:
    """Which broker, and on whose behalf."""

    addresses: tuple[str, ...]
    tenant: str | None
    token: str | None
    ca: Path | None
    cert: Path | None
    key: Path | None
    config: Path | None

    def client(self) -> "AbstractAsyncContextManager[JobsClient]":
        """What is not said is taken from the settings; a URL as the address is a broker in this very process."""
        from argosy.jobs.model import NO_TENANT
        from argosy.jobs.sdk import JobsClient

        tenant = self.tenant or NO_TENANT
        settings = _settings(self.config)
        addresses = self.addresses or (settings.grpc_address or f"{settings.grpc_host}:{settings.grpc_port}",)
        if any("://" in address for address in addresses):
            if len(addresses) > 1:
                raise Invalid("a broker in this process has one address: the URL of its folder")
            return JobsClient.embedded(addresses[0], tenant=tenant)
        token = self.token or next(iter(settings.tokens), None)
        return JobsClient.connect(*addresses, tenant=tenant, token=token, credentials=self._credentials())

    def _check_that_it_is_there(self) -> None:
        """Opening makes a broker of any folder, so that one who mistypes would be told that it has no such jobs."""
        for address in self.addresses:
            parts = urlsplit(address)
            if parts.scheme == "file" and not Path(unquote(parts.path)).exists():
                raise NotFound(f"there are no jobs at {address}: check --address")

    def _credentials(self) -> Any:
        from argosy.jobs.sdk.grpc import channel_credentials

        if (self.cert is None) != (self.key is None):
            raise Invalid("--cert and --key belong together: give both or neither")
        if self.ca is None and self.cert is None:
            return None
        ca, cert, key = (None if path is None else path.read_bytes() for path in (self.ca, self.cert, self.key))
        return channel_credentials(ca=ca, cert=cert, key=key)

    def ask(
        self, question: "Callable[[JobsClient], Awaitable[T]]", *, doing: str | None = None, may_create: bool = True
    ) -> T:
        """One thing, of a client that is opened for it. Somebody who is watching is shown what it is `doing`."""
        if not may_create:
            self._check_that_it_is_there()

        async def asked() -> T:
            async with self.client() as client:
                return await question(client)

        try:
            with nullcontext() if doing is None else status(doing):
                return asyncio.run(asked())
        except Unavailable as error:
            if type(error) is not Unavailable or "did not answer" not in str(error):
                raise
            raise Unavailable(
                f"{error}: is a broker up there? `argosy serve --role jobs` is one, and --address names its gRPC port"
            ) from None


def _settings(config: Path | None) -> "JobsSettings":
    from argosy.jobs.settings import JobsSettings

    return load(config).get(JobsSettings)


_OPTIONS = (
    config_option,
    click.option("--key", type=FILE, help="Our key, with --cert."),
    click.option("--cert", type=FILE, help="Our certificate, where the broker asks for one."),
    click.option("--ca", type=FILE, help="The authority of the broker's certificate; turns TLS on."),
    click.option("--token", help="Bearer token; by default the first of the setting jobs.tokens."),
    click.option("--tenant", "-t", help="Whose jobs; only where the broker has tenants."),
    click.option(
        "--address", "-a", "addresses", multiple=True, metavar="HOST:PORT|URL",
        help="A node of the broker, may be repeated; by default the one in the settings. "
        "A URL (file:///FOLDER) runs the broker in this process.",
    ),
)  # fmt: skip


def reach_options(command: C) -> C:
    """Adds what names a broker, handed over as `reach`, and `--json`."""

    @functools.wraps(command)
    def reached(*arguments: Any, **options: Any) -> Any:
        names = Reach.__dataclass_fields__
        reach = Reach(**{name: options.pop(name) for name in names})
        return command(*arguments, reach=reach, **options)

    wrapped: Any = json_option(reached)
    for add in _OPTIONS:
        wrapped = add(wrapped)
    found: C = wrapped
    return found
