"""Addresses of repositories: which are accepted, their names, and which are rejected before git is started."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import ArgosyError, Forbidden, Invalid
from argosy.search.catalog.addresses import ADDRESS_CHARS_MAX, address_of, repository_id


@pytest.mark.parametrize(
    ("text", "url", "name"),
    [
        ("https://github.com/o/r", "https://github.com/o/r", "github.com/o/r"),
        ("https://GitHub.com/O/R.git", "https://github.com/O/R.git", "github.com/O/R"),
        ("HTTPS://github.com:443/o/r/", "https://github.com/o/r", "github.com/o/r"),
        ("http://host:8080/a/b/c.git", "http://host:8080/a/b/c.git", "host:8080/a/b/c"),
        ("https://user:pass@github.com/o/r", "https://github.com/o/r", "github.com/o/r"),
        ("https://token@github.com/o/r", "https://github.com/o/r", "github.com/o/r"),
        ("ssh://git@github.com/o/r.git", "ssh://git@github.com/o/r.git", "github.com/o/r"),
        ("ssh://git:pw@github.com:2222/o/r", "ssh://git@github.com:2222/o/r", "github.com:2222/o/r"),
        ("git+ssh://git@host/o/r", "ssh://git@host/o/r", "host/o/r"),
        ("git@github.com:o/r.git", "git@github.com:o/r.git", "github.com/o/r"),
        ("host.example:/srv/git/r.git", "host.example:/srv/git/r.git", "host.example/srv/git/r"),
        ("git://git.example/r.git", "git://git.example/r.git", "git.example/r"),
        ("https://[2001:db8::1]:8443/r", "https://[2001:db8::1]:8443/r", "[2001:db8::1]:8443/r"),
        ("github.com/o/r", "https://github.com/o/r", "github.com/o/r"),
        ("  https://github.com/o/r ", "https://github.com/o/r", "github.com/o/r"),
        ("https://host./o/r", "https://host/o/r", "host/o/r"),
    ],
)
def test_an_address_is_normalized_and_named(text: str, url: str, name: str) -> None:
    address = address_of(text)
    assert (address.url, address.name) == (url, name)
    assert address_of(url).url == url, "what is stored is read back alike"


@pytest.mark.parametrize(
    ("text", "path", "name"),
    [
        ("/srv/git/app.git", "/srv/git/app.git", "app"),
        ("/srv/app/.git", "/srv/app/.git", "app"),
        ("/srv//a b/../app/", "/srv/app", "app"),
        ("file:///srv/app", "/srv/app", "app"),
        ("file://localhost/srv/app", "/srv/app", "app"),
        ("//srv/app", "/srv/app", "app"),
        ("/", "/", "root"),
    ],
)
def test_a_path_is_an_address_where_it_is_allowed(text: str, path: str, name: str) -> None:
    address = address_of(text, allow_local=True)
    assert (address.path, address.url, address.name, address.is_local) == (path, path, name, True)
    with pytest.raises(Forbidden, match=r"local repository .* not allowed; set fetch\.allow_local"):
        address_of(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("-u./payload", "starts with a dash"),
        ("--upload-pack=touch /tmp/x", "starts with a dash"),
        ("ext::sh -c touch% /tmp/x", "git remote helper"),
        ("fd::17/foo", "git remote helper"),
        ("transport::https://host/x", "git remote helper"),
        ("::x", "git remote helper"),
        ("https://host/o\n/r", "control character"),
        ("https://host/o/r\0", "control character"),
        ("https://host/o\u202e/r", "control character"),
        ("https://host/%0a/r", "control characters"),
        ("https://host/a\\b", "backslashes"),
        ("https://" + "a" * ADDRESS_CHARS_MAX, "too long"),
        ("ftp://host/o/r", "unsupported scheme"),
        ("javascript://host/o/r", "unsupported scheme"),
        ("ssh://-oProxyCommand=x/o/r", "invalid characters in the host"),
        ("ssh://-oProxy@host/o/r", "invalid characters in the user"),
        ("-oProxyCommand=x:o/r", "starts with a dash"),
        ("git@-oProxyCommand=x:o/r", "invalid characters in the host"),
        ("-x@host:o/r", "starts with a dash"),
        ("ssh://host/-x", "dashed path components"),
        ("host.example:-x", "dashed path components"),
        ("https://host/../../x", "dotted"),
        ("https://host", "no path"),
        ("https://host/", "no path"),
        ("https:///o/r", "no host"),
        ("https://host:port/o/r", "invalid host or port"),
        ("https://[::1/o/r", "invalid host or port"),
        ("https://host/o/r?tab=readme", "remove the part after"),
        ("https://host/o/r#readme", "remove the part after"),
        ("https://ho st/o/r", "invalid characters"),
        ("https://höst/o/r", "xn--"),
        ("some words", "neither a URL nor an absolute path"),
        ("name", "neither a URL nor an absolute path"),
    ],
)
def test_an_invalid_address_is_rejected_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        address_of(text, allow_local=True)


@pytest.mark.parametrize("text", ["./x", "../x", "~/x", "."])
def test_a_path_must_be_absolute(text: str) -> None:
    with pytest.raises(Invalid, match="start it with a slash"):
        address_of(text, allow_local=True)


def test_a_file_url_with_a_host_is_rejected() -> None:
    with pytest.raises(Invalid, match="another host"):
        address_of("file://host/srv/app", allow_local=True)


@pytest.mark.parametrize(
    "text", ["https://me:hunter2@host/o/r", "https://hunter2@host/o/r", "ssh://git:hunter2@host/o/r"]
)
def test_a_password_is_removed_and_the_error_names_the_setting_for_it(text: str) -> None:
    address = address_of(text)
    assert "hunter2" not in repr(address)
    assert address.note == "user and password removed from the address; add them to the credentials of host"
    assert address_of("https://host/o/r").note == address_of("git@host:o/r").note == ""


def test_an_error_shows_no_password_and_no_more_than_necessary() -> None:
    with pytest.raises(Invalid) as raised:
        address_of("https://me:hunter2@host/o/r?" + "x" * 1000)
    assert "hunter2" not in str(raised.value)
    assert len(str(raised.value)) < 300


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    try:
        shown = address_of(text, allow_local=True).url
        assert "::" not in shown.partition("/")[0]
    except ArgosyError as raised:
        shown = str(raised)
    assert shown.isprintable()
    assert not shown.startswith("-")


def test_an_id_is_the_same_on_every_machine_and_never_zero() -> None:
    assert repository_id("github.com/o/r") == 1_931_986_290  # stored by clients: no release may change it
    assert len({repository_id(f"r{number}") for number in range(1000)}) == 1000
    assert all(0 < repository_id(f"r{number}") < 2**32 for number in range(1000))
