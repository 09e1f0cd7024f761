"""The way to an origin: where a redirect leads, and whether one may go there.

Whoever may add a repository could otherwise have this machine knock at doors that are closed to them: by an address in
a private network, by a public one that redirects to it, or by a name that means one thing when it is checked and
another when it is used. So git follows no redirect; each is looked at here, and the network addresses that were
checked are the ones that git then connects to.
"""

import asyncio
import socket
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from argosy.base.cache import Cache
from argosy.base.errors import ArgosyError, Forbidden, Invalid, Unavailable
from argosy.base.urls import is_private
from argosy.search.backends.remote_credentials import Credentials
from argosy.search.backends.remote_git import Way
from argosy.search.catalog.addresses import Address, address_of

REDIRECTS_MAX = 5
LED_MAX = 10_000  # origins whose redirects are remembered
RESOLVE_S_MAX = 10.0
_ASKED = "/info/refs?service=git-upload-pack"
_REDIRECTS = {301, 302, 303, 307, 308}

Resolver = Callable[[str, int], Awaitable[tuple[str, ...]]]  # a host and port to network addresses


async def resolved(host: str, port: int) -> tuple[str, ...]:
    """What the machine's name service says, best first."""
    try:
        async with asyncio.timeout(RESOLVE_S_MAX):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        raise Unavailable(f"{host} is not known by name: check the address, or the name service") from None
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))


@dataclass(frozen=True)
class _Place:
    """A host with the network addresses it has now."""

    numbers: tuple[str, ...]
    is_private: bool


class Routes:
    """Finds ways to origins and remembers where redirects led."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        allow_private: bool,
        resolver: Resolver = resolved,
        private: Callable[[str], bool] = is_private,
        ask_s: float = 30.0,
    ) -> None:
        self._credentials = credentials
        self._allow_private = allow_private
        self._resolver = resolver
        self._private = private
        self._ask_s = ask_s
        self._led: Cache[str, Address] = Cache(entries_max=LED_MAX)

    async def way(self, origin: Address) -> Way:
        """How to get there, along redirects that are already known."""
        led = self._led.get(origin.url)
        if led is not None:
            return await self._led_way(origin, led)
        place = None if self._allow_private else await self._place(origin)
        if place is not None and place.is_private:
            raise Forbidden(
                f"{origin.host_port} is at a private address, and such are not fetched from: set fetch.allow_private"
            )
        if place is not None and origin.scheme == "git":
            raise Forbidden(f"{origin.url} cannot be checked on its way: give its https address, or ssh")
        return await self._with_credential(Way(origin, place.numbers if place else ()))

    async def follow(self, origin: Address) -> Way:
        """Looks where an origin redirects to, step by step, and remembers the end."""
        if not origin.is_web:
            raise Invalid(f"{origin.url} leads elsewhere: give the address it leads to")
        here = origin
        for _ in range(REDIRECTS_MAX):
            led = await self._step(origin, here)
            if led is None:
                self._led.put(origin.url, here)
                return await self._led_way(origin, here)
            here = led
        raise Invalid(f"{origin.url} redirects more than {REDIRECTS_MAX} times: give the address it leads to")

    def is_led(self, origin: Address) -> bool:
        return origin.url in self._led

    def forget(self, origin: Address) -> None:
        """Starts from the beginning the next time."""
        self._led.remove(origin.url)

    async def _led_way(self, origin: Address, led: Address) -> Way:
        """The way to where a redirect led, with the host checked as it is now."""
        place = await self._checked(origin, led)
        way = Way(led, place.numbers)
        return await self._with_credential(way) if _is_same(origin, led) else way

    async def _checked(self, origin: Address, led: Address) -> _Place:
        place = await self._place(led)
        if place.is_private and (not self._allow_private or not (await self._place(origin)).is_private):
            raise Forbidden(f"{origin.host_port} redirects to {led.host_port}, a private address: never followed")
        return place

    async def _place(self, address: Address) -> _Place:
        numbers = await self._resolver(address.host, address.port)
        if not numbers:
            raise Unavailable(f"{address.host} has no network address: check the address, or the name service")
        return _Place(numbers, any(self._private(number) for number in numbers))

    async def _with_credential(self, way: Way) -> Way:
        credential = await self._credentials.for_address(way.address)
        return replace(way, user=credential.user, secret=credential.secret) if credential else way

    async def _step(self, origin: Address, here: Address) -> Address | None:
        """Where `here` redirects to; None if it answers itself, be it with an error."""
        way = await self._led_way(origin, here)
        headers = {"user-agent": "git/argosy", "git-protocol": "version=2"}
        if way.secret:
            headers["authorization"] = "Basic " + b64encode(f"{way.user}:{way.secret}".encode()).decode()
        timeout = aiohttp.ClientTimeout(total=self._ask_s)
        connector = aiohttp.TCPConnector(resolver=_Pinned(way.pinned), force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(here.url + _ASKED, headers=headers, allow_redirects=False) as answer,
            ):
                location = answer.headers.get("location", "") if answer.status in _REDIRECTS else ""
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = type(error).__name__
            raise Unavailable(f"{here.host_port} cannot be reached ({why}): it will be tried again") from None
        return _target(origin, here, location) if location else None


def _target(origin: Address, here: Address, location: str) -> Address:
    """The repository's address behind a redirect, which must lead to the same question asked elsewhere."""
    url = urljoin(here.url + _ASKED, location)
    remedy = "give the address of the repository itself"
    if not url.endswith(_ASKED):
        raise Invalid(f"{origin.url} redirects to something that is no repository: {remedy}")
    try:
        target = address_of(url.removesuffix(_ASKED))
    except ArgosyError:
        raise Invalid(f"{origin.url} redirects to something that is not fetched from: {remedy}") from None
    if not target.is_web or (here.scheme == "https" and target.scheme != "https"):
        raise Forbidden(f"{origin.url} redirects to a {target.scheme} address, which is less safe: {remedy}")
    return target


def _is_same(origin: Address, led: Address) -> bool:
    """Whether both are one host to whom the same may be told: at the same port, or from the usual http to https."""
    if origin.host != led.host:
        return False
    return origin.port == led.port or (origin.port, led.port) == (80, 443)


class _Pinned(AbstractResolver):
    """Knows nothing but the addresses that were checked."""

    def __init__(self, numbers: tuple[str, ...]) -> None:
        self._numbers = numbers

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=number,
                port=port,
                family=socket.AF_INET6 if ":" in number else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for number in self._numbers
        ]

    async def close(self) -> None:
        pass
