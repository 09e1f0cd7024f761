"""git's complaints, told by remedy."""

import pytest

from argosy.base.errors import ArgosyError, Unauthorized, Unavailable
from argosy.search.backends.git_errors import _MEANINGS, Trouble, failure
from argosy.search.catalog.addresses import address_of

ADDRESS = address_of("https://git.example:8443/o/{gnutls}.git")


@pytest.mark.parametrize(
    ("part", "kind", "trouble"), [(part, kind, trouble) for parts, trouble, kind, _ in _MEANINGS for part in parts]
)
def test_every_complaint_has_its_kind_and_a_remedy(part: str, kind: type[ArgosyError], trouble: Trouble) -> None:
    failed = failure(ADDRESS, f"fatal: {part} and more")
    assert (type(failed.error), failed.trouble) == (kind, trouble)
    assert ": " in str(failed).partition(" (git: ")[0], "what happened, and what to do"
    assert len(str(failed)) < 400


@pytest.mark.parametrize(
    ("words", "kind", "reason"),
    [
        (
            "git@git.example: Permission denied (publickey).\nfatal: Could not read from remote repository.",
            Unauthorized, r"needs an ssh key for git\.example:8443",
        ),
        (
            "Host key verification failed.\nfatal: Could not read from remote repository.",
            Unauthorized, "add it to known_hosts",
        ),
        ("fatal: unable to access 'x': SSL certificate problem: self-signed", Unavailable, "check its certificate"),
        (
            f"fatal: unable to access '{ADDRESS.url}': Failed to connect to git.example port 8443",
            Unavailable, r"git\.example:8443 cannot be reached",
        ),
        ("fatal: write error: No space left on device", Unavailable, "this machine's disk is full"),
    ],
)  # fmt: skip
def test_what_git_really_says_is_understood(words: str, kind: type[ArgosyError], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        raise failure(ADDRESS, words).error


def test_words_nobody_knows_may_mean_that_our_copy_is_damaged() -> None:
    failed = failure(ADDRESS, "")
    assert (type(failed.error), failed.trouble) == (Unavailable, Trouble.DAMAGE)
    assert str(failed) == (
        "https://git.example:8443/o/{gnutls}.git could not be fetched (git: it said nothing): it will be tried again"
    )


def test_a_secret_that_an_origin_sends_back_is_masked() -> None:
    words = "remote: you are me:hunter2, or bWU6aHVudGVyMg== \x1b[2J\nfatal: https://me:other@host/"
    told = str(failure(ADDRESS, words, secrets=("hunter2", "me:hunter2")))
    assert not any(secret in told for secret in ("hunter2", "bWU6aHVudGVyMg==", "other"))
    assert told.isprintable()
