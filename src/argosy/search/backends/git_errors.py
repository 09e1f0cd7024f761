"""Errors of git, by the text it prints: what failed and what to do about it, as short messages for lists and status
pages.

Unavailable means that a retry may succeed; every other error needs an operator. git's exit code is 128 for nearly every
failure, so its text is all there is. It runs with LC_ALL=C, which keeps the texts in English.
"""

import base64
import shlex
from collections.abc import Iterable
from enum import Enum

from argosy.base.errors import ArgosyError, Forbidden, Invalid, NotFound, Unauthorized, Unavailable
from argosy.base.redact import MASK, redact
from argosy.search.catalog.addresses import Address

TEXT_CHARS_MAX = 200  # of git's own text in a message


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """git's text on one line, bounded, without secrets and without characters that move a terminal's cursor."""
    for secret in secrets:
        # Also in base64, the form in which HTTP sends a credential.
        for form in (secret, base64.b64encode(secret.encode()).decode()):
            text = text.replace(form, MASK) if form else text
    lines = (line.strip() for line in text.splitlines())
    joined = redact("; ".join(line for line in lines if line) or "no message")
    # git's text contains what the origin sent, which could otherwise steer the terminal.
    joined = "".join(letter if letter.isprintable() else " " for letter in joined)
    return joined if len(joined) <= TEXT_CHARS_MAX else f"{joined[:TEXT_CHARS_MAX]}…"


# -- fetching from an origin -------------------------------------------------------------------------------------------


class FetchProblem(Enum):
    """Problems that the fetcher can do something about itself."""

    CREDENTIALS = "credentials"  # they may be stale: obtain new ones
    REDIRECT = "redirect"  # resolve it
    DAMAGE = "damage"  # the mirror may be damaged: clone it again
    OTHER = "other"


class FetchFailed(Exception):
    """git failed; `error` is what the caller of the fetcher gets."""

    def __init__(self, problem: FetchProblem, error: ArgosyError) -> None:
        super().__init__(str(error))
        self.problem = problem
        self.error = error


# Texts of git and curl, and what they mean here. The first match counts, so the specific ones come first.
_FETCH_ERRORS: tuple[tuple[tuple[str, ...], FetchProblem, type[ArgosyError], str], ...] = (
    (
        ("Authentication failed",),
        FetchProblem.CREDENTIALS, Unauthorized,
        "{host} rejected the credentials; renew them in fetch.credentials_file or fetch.credentials_command",
    ),
    (
        # The third is printed by git 2.53 where it may not prompt.
        ("could not read Username", "could not read Password", "unable to get password", "returned error: 401"),
        FetchProblem.CREDENTIALS, Unauthorized,
        "credentials required for {host}; add them to fetch.credentials_file or fetch.credentials_command",
    ),
    (
        ("returned error: 403",),
        FetchProblem.CREDENTIALS, Forbidden,
        "{host} denied access; give the credentials access to {url}",
    ),
    (
        ("Permission denied (", "Too many authentication failures"),
        FetchProblem.OTHER, Unauthorized,
        "ssh key required for {host}; install one for the user that this node runs as",
    ),
    (
        ("Host key verification failed",),
        FetchProblem.OTHER, Unauthorized,
        "unknown ssh host key of {host}; check it, then add it to known_hosts with ssh-keyscan",
    ),
    (
        tuple(f"returned error: {status}" for status in (301, 302, 303, 307, 308)),
        FetchProblem.REDIRECT, Invalid,
        "{host} redirects; use the address it redirects to",
    ),
    (
        ("returned error: 404", "returned error: 410", "' not found", "does not exist", "Repository not found",
         "could not be found", "does not appear to be a git repository"),
        FetchProblem.OTHER, NotFound,
        "repository not found at {url}, or access denied; check the address and the credentials for {host}",
    ),
    (
        ("is this a git repository", "dumb http transport does not support shallow"),
        FetchProblem.OTHER, Invalid,
        "{url} is not served by a git server; check the address",
    ),
    (
        ("couldn't find remote ref",),
        FetchProblem.OTHER, Unavailable,
        "a branch of {url} was deleted during the fetch; retrying later",
    ),
    (
        ("Could not resolve host", "Name or service not known", "Temporary failure in name resolution"),
        FetchProblem.OTHER, Unavailable,
        "cannot resolve host {host}; check the address, or DNS",
    ),
    (
        ("SSL certificate", "server certificate", "SSL connect", "SSL_", "SSL peer", "TLS connect", "gnutls"),
        FetchProblem.OTHER, Unavailable,
        "TLS connection to {host} failed; check its certificate",
    ),
    (
        ("Operation too slow", "timed out", "Operation timed out", "Timeout"),
        FetchProblem.OTHER, Unavailable,
        "{host} timed out; retrying later",
    ),
    (
        ("Failed to connect", "Connection refused", "Couldn't connect", "No route to host", "Network is unreachable",
         "unable to connect", "Connection reset", "Empty reply from server", "Could not read from remote"),
        FetchProblem.OTHER, Unavailable,
        "{host} unreachable; retrying later",
    ),
    (
        ("returned error: 429", "returned error: 5"),
        FetchProblem.OTHER, Unavailable,
        "{host} overloaded or failing; retrying later",
    ),
    (
        ("No space left on device", "Disk quota exceeded"),
        FetchProblem.OTHER, Unavailable,
        "disk full on this machine; free space in fetch.dir, or lower fetch.dir_bytes_max",
    ),
    (
        ("remote: fatal:", "remote: error:", "upload-pack: not our ref", "remote error:"),
        FetchProblem.OTHER, Unavailable,
        "{host} failed while sending; the repository may be damaged there",
    ),
    (
        ("early EOF", "unexpected disconnect", "hung up unexpectedly", "RPC failed", "bad line length",
         "inflate returned"),
        FetchProblem.OTHER, Unavailable,
        "data from {host} truncated or damaged; retrying later",
    ),
)  # fmt: skip


def fetch_error(address: Address, text: str, *, secrets: Iterable[str] = ()) -> FetchFailed:
    """The failure behind git's text. An origin may send back what it was sent, so `secrets` are masked."""
    shown = one_line(text, secrets)
    text = text.replace(address.url, "")  # the name of a repository may contain any of the texts
    for parts, problem, kind, meaning in _FETCH_ERRORS:
        if any(part in text for part in parts):
            message = meaning.format(host=address.host_port, url=address.url)
            return FetchFailed(problem, kind(f"{message} (git: {shown})"))
    # An unknown text may come from a damaged mirror, which cloning again repairs.
    return FetchFailed(
        FetchProblem.DAMAGE, Unavailable(f"fetching {address.url} failed; retrying later (git: {shown})")
    )


def timeout_error(address: Address, what: str, limit_s: float) -> Unavailable:
    return Unavailable(f"{address.host_port}: {what} timed out after {limit_s:.0f} s; retrying later")


def size_error(address: Address, bytes_max: int) -> Invalid:
    return Invalid(
        f"{address.url} is larger than {bytes_max / (1 << 20):.0f} MiB; raise fetch.repository_bytes_max, or remove it"
    )


# -- reading a local repository ----------------------------------------------------------------------------------------

# The first match counts.
_LOCAL_ERRORS: tuple[tuple[str, type[ArgosyError], str], ...] = (
    ("cannot change to", NotFound, "pass a folder that exists"),
    ("not a git repository", NotFound, "pass a git repository, or repair its .git"),
    ("repository extension", Invalid, "a newer git created it; install that version"),
    ("git repo version", Invalid, "a newer git created it; install that version"),
    ("bad config", Invalid, "fix its configuration"),
    ("config value", Invalid, "fix its configuration"),
    ("must be run in a work tree", Invalid, "it has no working files; name the branches to read"),
    ("index file", Unavailable, "rebuild its index with `git reset`, or name the branches to read"),
)


def error_from_git(place: str, command: str, text: str) -> ArgosyError:
    """The error for git's text about the repository at `place`."""
    if "dubious ownership" in text:
        quoted = shlex.quote(place) if place.isprintable() else repr(place)
        return Invalid(
            f"git refuses to read {place!r}: it belongs to another user; if you trust it, run "
            f"`git config --global --add safe.directory {quoted}`"
        )
    for part, kind, remedy in _LOCAL_ERRORS:
        if part in text:
            return kind(f"git {command} failed on {place!r} (git: {one_line(text)}); {remedy}")
    return Unavailable(
        f"git {command} failed on {place!r} (git: {one_line(text)}); check it with `git fsck`, or clone it again"
    )
