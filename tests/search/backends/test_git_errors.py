"""Errors from the messages of git, each with a fix."""

import pytest

from argosy.base.errors import ArgosyError, Unauthorized, Unavailable
from argosy.search.backends.git_errors import _FETCH_ERRORS, FetchProblem, fetch_error
from argosy.search.catalog.addresses import address_of

ADDRESS = address_of("https://git.example:8443/o/{gnutls}.git")


@pytest.mark.parametrize(
    ("part", "kind", "problem"), [(part, kind, problem) for parts, problem, kind, _ in _FETCH_ERRORS for part in parts]
)
def test_every_message_of_git_has_its_error_class_and_a_fix(
    part: str, kind: type[ArgosyError], problem: FetchProblem
) -> None:
    failed = fetch_error(ADDRESS, f"fatal: {part} and more")
    assert (type(failed.error), failed.problem) == (kind, problem)
    assert "; " in str(failed).partition(" (git: ")[0], "what happened, and what to do"
    assert len(str(failed)) < 400


@pytest.mark.parametrize(
    ("words", "kind", "reason"),
    [
        (
            "git@git.example: Permission denied (publickey).\nfatal: Could not read from remote repository.",
            Unauthorized, r"ssh key required for git\.example:8443",
        ),
        (
            "Host key verification failed.\nfatal: Could not read from remote repository.",
            Unauthorized, "add it to known_hosts",
        ),
        ("fatal: unable to access 'x': SSL certificate problem: self-signed", Unavailable, "check its certificate"),
        (
            f"fatal: unable to access '{ADDRESS.url}': Failed to connect to git.example port 8443",
            Unavailable, r"git\.example:8443 unreachable",
        ),
        ("fatal: write error: No space left on device", Unavailable, "disk full on this machine"),
    ],
)  # fmt: skip
def test_real_messages_of_git_are_understood(words: str, kind: type[ArgosyError], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        raise fetch_error(ADDRESS, words).error


def test_an_unknown_message_may_mean_a_damaged_mirror() -> None:
    failed = fetch_error(ADDRESS, "")
    assert (type(failed.error), failed.problem) == (Unavailable, FetchProblem.DAMAGE)
    assert str(failed) == ("fetching https://git.example:8443/o/{gnutls}.git failed; retrying later (git: no message)")


def test_a_secret_in_a_response_of_the_origin_is_masked() -> None:
    words = "remote: you are me:hunter2, or bWU6aHVudGVyMg== \x1b[2J\nfatal: https://me:other@host/"
    message = str(fetch_error(ADDRESS, words, secrets=("hunter2", "me:hunter2")))
    assert not any(secret in message for secret in ("hunter2", "bWU6aHVudGVyMg==", "other"))
    assert message.isprintable()
