"""What git says when an origin cannot be fetched from, told in our words with what to do.

Reasons are short, for they are shown beside a repository in lists. Unavailable passes by itself and is tried again;
everything else waits for somebody.
"""

import base64
from collections.abc import Iterable
from enum import Enum

from argosy.base.errors import ArgosyError, Forbidden, Invalid, NotFound, Unauthorized, Unavailable
from argosy.base.redact import MASK, redact
from argosy.search.catalog.addresses import Address

WORDS_SHOWN_MAX = 200


class Trouble(Enum):
    """What is wrong, as far as the next step differs."""

    CREDENTIALS = "credentials"  # they may be stale: ask for them anew
    REDIRECT = "redirect"  # look where it leads
    DAMAGE = "damage"  # our copy may be broken: make it anew
    OTHER = "other"


class FetchFailed(Exception):
    """A git that failed: what it said, by trouble and by remedy."""

    def __init__(self, trouble: Trouble, error: ArgosyError) -> None:
        super().__init__(str(error))
        self.trouble = trouble
        self.error = error


# What git's words mean. The first that is found counts; {host} and {url} are filled in.
_MEANINGS: tuple[tuple[tuple[str, ...], Trouble, type[ArgosyError], str], ...] = (
    (
        ("Authentication failed",),
        Trouble.CREDENTIALS, Unauthorized,
        "{host} refuses the credentials it is given: renew those in fetch.credentials_file or of the command",
    ),
    (
        # The third is what git 2.53 prints where it may not prompt.
        ("could not read Username", "could not read Password", "unable to get password", "returned error: 401"),
        Trouble.CREDENTIALS, Unauthorized,
        "needs credentials for {host}: add them to fetch.credentials_file or have fetch.credentials_command print them",
    ),
    (
        ("returned error: 403",),
        Trouble.CREDENTIALS, Forbidden,
        "{host} forbids it: give its credentials access to {url}",
    ),
    (
        ("Permission denied (", "Too many authentication failures"),
        Trouble.OTHER, Unauthorized,
        "needs an ssh key for {host}: give one to the user this node runs as",
    ),
    (
        ("Host key verification failed",),
        Trouble.OTHER, Unauthorized,
        "the ssh key of {host} is not known: check it, then add it to known_hosts with ssh-keyscan",
    ),
    (
        tuple(f"returned error: {status}" for status in (301, 302, 303, 307, 308)),
        Trouble.REDIRECT, Invalid,
        "{host} leads elsewhere: give the address it leads to",
    ),
    (
        ("returned error: 404", "returned error: 410", "' not found", "does not exist", "Repository not found",
         "could not be found", "does not appear to be a git repository"),
        Trouble.OTHER, NotFound,
        "there is no repository at {url}, or none to be seen: check the address and the credentials for {host}",
    ),
    (
        ("is this a git repository", "dumb http transport does not support shallow"),
        Trouble.OTHER, Invalid,
        "{url} does not answer like a git server: check the address",
    ),
    (
        ("couldn't find remote ref",),
        Trouble.OTHER, Unavailable,
        "a branch of {url} went away while it was fetched: it will be tried again",
    ),
    (
        ("Could not resolve host", "Name or service not known", "Temporary failure in name resolution"),
        Trouble.OTHER, Unavailable,
        "{host} is not known by name: check the address, or the name service",
    ),
    (
        ("SSL certificate", "server certificate", "SSL connect", "SSL_", "SSL peer", "TLS connect", "gnutls"),
        Trouble.OTHER, Unavailable,
        "no safe connection to {host}: check its certificate",
    ),
    (
        ("Operation too slow", "timed out", "Operation timed out", "Timeout"),
        Trouble.OTHER, Unavailable,
        "{host} did not answer in time: it will be tried again",
    ),
    (
        ("Failed to connect", "Connection refused", "Couldn't connect", "No route to host", "Network is unreachable",
         "unable to connect", "Connection reset", "Empty reply from server", "Could not read from remote"),
        Trouble.OTHER, Unavailable,
        "{host} cannot be reached: it will be tried again",
    ),
    (
        ("returned error: 429", "returned error: 5"),
        Trouble.OTHER, Unavailable,
        "{host} is busy or broken: it will be tried again",
    ),
    (
        ("No space left on device", "Disk quota exceeded"),
        Trouble.OTHER, Unavailable,
        "this machine's disk is full: make room in fetch.dir, or lower fetch.dir_bytes_max",
    ),
    (
        ("remote: fatal:", "remote: error:", "upload-pack: not our ref", "remote error:"),
        Trouble.OTHER, Unavailable,
        "{host} failed while sending: the repository may be damaged there",
    ),
    (
        ("early EOF", "unexpected disconnect", "hung up unexpectedly", "RPC failed", "bad line length",
         "inflate returned"),
        Trouble.OTHER, Unavailable,
        "what came from {host} was cut off or damaged: it will be tried again",
    ),
)  # fmt: skip


def failure(address: Address, words: str, *, secrets: Iterable[str] = ()) -> FetchFailed:
    """The failure behind git's complaint. An origin may send back what it was sent, so `secrets` are masked."""
    said = tidy(words, secrets)
    words = words.replace(address.url, "")  # a repository may be called anything
    for parts, trouble, kind, meaning in _MEANINGS:
        if any(part in words for part in parts):
            told = meaning.format(host=address.host_port, url=address.url)
            return FetchFailed(trouble, kind(f"{told} (git: {said})"))
    return FetchFailed(
        Trouble.DAMAGE, Unavailable(f"{address.url} could not be fetched (git: {said}): it will be tried again")
    )


def too_slow(address: Address, what: str, limit_s: float) -> Unavailable:
    return Unavailable(f"{address.host_port} took longer than {limit_s:.0f} s to {what}: it will be tried again")


def too_large(address: Address, bytes_max: int) -> Invalid:
    return Invalid(
        f"{address.url} is larger than {bytes_max / (1 << 20):.0f} MiB: raise fetch.repository_bytes_max, or drop it"
    )


def tidy(words: str, secrets: Iterable[str] = ()) -> str:
    """The last of what was said on one line, without secrets or anything that moves a cursor."""
    for secret in secrets:
        for shape in (secret, base64.b64encode(secret.encode()).decode()):
            words = words.replace(shape, MASK) if shape else words
    lines = (line.strip() for line in words.splitlines())
    text = redact("; ".join(line for line in lines if line) or "it said nothing")
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= WORDS_SHOWN_MAX else f"{text[:WORDS_SHOWN_MAX]}…"
