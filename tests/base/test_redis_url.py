"""Redis URLs: their options, and errors of invalid ones; a password is never printed."""

import pytest

from argosy.base import extras
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Invalid
from argosy.registry.factory import open_registry


def test_a_plain_url_has_defaults() -> None:
    target = parse_redis_url("redis://")
    assert (target.hosts, target.db, target.user, target.password) == ((("localhost", 6379),), 0, None, None)
    assert target.tls() is None


def test_every_option_can_be_given() -> None:
    target = parse_redis_url("valkeys://us%65r:p%40ss@db.example:7000/3?ssl_cert_reqs=none")
    assert (target.hosts, target.db) == ((("db.example", 7000),), 3)
    assert (target.user, target.password, target.is_encrypted) == ("user", "p@ss", True)
    assert target.name == "valkeys://db.example:7000/3"
    context = target.tls()
    assert context is not None
    assert not context.check_hostname


def test_sentinels_are_several_and_name_a_service() -> None:
    target = parse_redis_url("redis+sentinel://:pw@a,b:1/main/2")
    assert (target.hosts, target.service, target.db) == ((("a", 26379), ("b", 1)), "main", 2)
    assert target.password == "pw"


def test_sentinels_may_have_ipv6_addresses() -> None:
    target = parse_redis_url("redis+sentinel://:pw@[::1]:1,[fe80::1],h/main")
    assert target.hosts == (("::1", 1), ("fe80::1", 26379), ("h", 26379))
    assert (target.service, target.password) == ("main", "pw")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://:secret@x", "not a Redis URL"),
        ("redis://:secret@x/one", "database is a number"),
        ("redis://:secret@x:port", "not a Redis URL"),
        ("redis://:secret@a,b", "several servers"),
        ("redis://:secret@[::1", "not a Redis URL"),
        ("redis://:secret@[::1]:1,[::2]:2", "several servers"),
        ("redis://:secret@a?timeout=3", "unknown option 'timeout'"),
        ("redis+sentinel://:secret@a", "append /<service>"),
        ("rediss://:secret@a?ssl_ca_certs=nowhere.pem", "cannot be read"),
    ],
)
def test_an_invalid_url_is_rejected_without_its_password(url: str, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint) as refused:
        parse_redis_url(url).tls()
    assert "secret" not in str(refused.value)


def test_a_target_does_not_show_its_password() -> None:
    assert "secret" not in repr(parse_redis_url("redis://:secret@host"))


async def test_an_unknown_scheme_is_refused_with_a_guess() -> None:
    with pytest.raises(Invalid, match="did you mean redis://"):
        await open_registry("rediz://host", clock=SystemClock(), random=seeded_random(1))
    with pytest.raises(Invalid, match="supported: sqlite://"):
        await open_registry("registry.db", clock=SystemClock(), random=seeded_random(1))


async def test_a_file_registry_without_a_path_is_no_registry_in_memory() -> None:
    with pytest.raises(Invalid, match=r"needs a path; write sqlite:///relative\.db, or memory://"):
        await open_registry("sqlite://", clock=SystemClock(), random=seeded_random(1))


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'hiredis'", name="hiredis")

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(Invalid, match="the redis backend needs the package redis, which is not installed: run `"):
        await open_registry("redis://host", clock=SystemClock(), random=seeded_random(1))


async def test_a_namespace_that_would_break_the_hash_tag_is_refused() -> None:
    with pytest.raises(Invalid, match="a namespace has letters"):
        await open_registry("redis://host", clock=SystemClock(), random=seeded_random(1), namespace="a}b")
