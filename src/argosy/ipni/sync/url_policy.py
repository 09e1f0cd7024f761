"""Which URLs may be read: http and https addresses of a publisher outside private networks.

Anyone can announce any address, and a name may resolve differently when it is checked and when it is used. So
numeric addresses are checked here, names by what they resolve to at connect time.
"""

from collections.abc import Callable, Iterable
from urllib.parse import urljoin

from yarl import URL

from argosy.base.errors import Invalid
from argosy.base.urls import is_private
from argosy.ipni.formats import multiaddr
from argosy.ipni.model import Peer

ADDRESSES_MAX = 8  # of one publisher; those after are not tried
URL_CHARS_MAX = 2048

AddressCheck = Callable[[str], bool]  # whether a network address, in numbers, is private


def check_url(url: str, judge: AddressCheck | None) -> URL:
    """The URL, parsed once for the check and the use; Invalid if nothing is to be read there.

    Without a judge every network address will do.
    """
    try:
        parsed = URL(url, encoded=True)
        host = parsed.raw_host or ""
    except (ValueError, TypeError):
        raise Invalid(f"{url[:200]!r} is not a URL") from None
    if parsed.scheme not in ("http", "https") or not host or len(url) > URL_CHARS_MAX:
        raise Invalid(f"{url[:200]!r} cannot be read: only http and https publishers can be")
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise Invalid(f"a URL at {host} carries a user name: publishers are read without one")
    # What looks like a number is never looked up as a name, so it is judged here or nowhere.
    if ":" in host or host.replace(".", "").isdigit():
        _check_number(host, judge)
    return parsed


def _check_number(host: str, judge: AddressCheck | None) -> None:
    is_private(host)  # Invalid for a number in a form that only hides what it is
    if judge is not None and judge(host):
        raise Invalid(_refusal(host))


def _refusal(host: str) -> str:
    return f"{host} is at a private address, and such publishers are not read: set ipni_sync.allow_private"


def bases(publisher: Peer, judge: AddressCheck | None) -> tuple[str, ...]:
    """The URLs under which the publisher's chain may be read, in its own order; Invalid if there is none."""
    found: dict[str, None] = {}
    refusals = []
    for address in publisher.addresses:
        try:
            url = _url(address)
            check_url(url, judge)
            found[url] = None
        except Invalid as refusal:
            refusals.append(str(refusal))
    if not found:
        why = "; ".join(refusals[:ADDRESSES_MAX]) or "it has no address"
        raise Invalid(f"publisher {publisher.id} cannot be read: {why}")
    return tuple(found)[:ADDRESSES_MAX]


def _url(address: str) -> str:
    url = multiaddr.url_of(address)
    if url is None:
        raise Invalid(f"{address[:200]} is no http address: only http and https publishers can be read")
    return url.rstrip("/")


def redirect_target(url: str, location: str, judge: AddressCheck | None) -> str:
    """Where a redirect leads; Invalid if one does not go there."""
    try:
        target = urljoin(url, location)
    except ValueError:
        raise Invalid(f"{url} redirects to {location[:200]!r}, which is not a URL") from None
    try:
        check_url(target, judge)
    except Invalid as refusal:
        raise Invalid(f"{url} redirects elsewhere: {refusal}") from None
    return target


def check_resolved(numbers: Iterable[str], host: str, judge: AddressCheck | None) -> tuple[str, ...]:
    """The network addresses of a name, if it may be connected to: one private one among them spoils all."""
    kept = tuple(dict.fromkeys(numbers))
    if judge is not None and any(judge(number) for number in kept):
        raise Invalid(_refusal(host))
    return kept
