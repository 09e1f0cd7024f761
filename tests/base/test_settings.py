"""Settings: defaults, then the file, then the environment; and every error reported at once, with its source."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from argosy.base.errors import Invalid
from argosy.base.settings import describe, load, setting, show


@dataclass(frozen=True)
class RenewalSettings:
    SECTION: ClassVar[str] = "keeper"

    ttl_s: float = setting(30.0, min=1, doc="how long a lease lives")
    margin_s: float = setting(5.0, min=0, doc="how much earlier the holder stops")
    mode: str = setting("safe", choices=("safe", "fast"), doc="what to prefer")
    spaces: tuple[str, ...] = setting((), doc="which spaces to bid in")

    def check(self) -> Iterable[str]:
        if self.margin_s >= self.ttl_s:
            yield f"margin_s ({self.margin_s}) must be less than ttl_s ({self.ttl_s})"


@dataclass(frozen=True)
class Store:
    SECTION: ClassVar[str] = "store"

    url: str = setting("memory://", doc="where leases are kept")
    password: str | None = setting(None, doc="how to log in", secret=True)
    pool_max: int | None = setting(None, min=1, doc="connections at most; none means no bound")
    is_tls: bool = setting(False, doc="whether to encrypt")


BOTH = (RenewalSettings, Store)


def problems(**sources) -> list[str]:
    """The lines of the one error that `load` raises."""
    with pytest.raises(Invalid) as caught:
        load(BOTH, **{"environ": {}, **sources})
    return [line.strip() for line in str(caught.value).splitlines()]


def test_without_any_source_the_defaults_hold() -> None:
    loaded = load(BOTH, environ={})
    assert loaded.get(RenewalSettings) == RenewalSettings()
    assert loaded.get(Store) == Store()


def test_the_file_outranks_the_default_and_the_environment_the_file() -> None:
    text = '[keeper]\nttl_s = 20\nmargin_s = 2.5\nspaces = ["a", "b"]\n[store]\nis_tls = true'
    loaded = load(BOTH, toml_text=text, environ={"ARGOSY_KEEPER_TTL_S": "10", "HOME": "/x"})
    assert loaded.get(RenewalSettings) == RenewalSettings(ttl_s=10.0, margin_s=2.5, spaces=("a", "b"))
    assert loaded.get(Store).is_tls is True
    assert isinstance(loaded.get(RenewalSettings).ttl_s, float)


def test_an_empty_variable_undoes_an_optional_setting_of_the_file() -> None:
    loaded = load(BOTH, toml_text="[store]\npool_max = 3", environ={"ARGOSY_STORE_POOL_MAX": ""})
    assert loaded.get(Store).pool_max is None


def test_lists_in_the_environment_are_parted_by_commas() -> None:
    loaded = load(BOTH, environ={"ARGOSY_KEEPER_SPACES": "a, b"})
    assert loaded.get(RenewalSettings).spaces == ("a", "b")


def test_a_file_is_read_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text("[keeper]\nttl_s = 12")
    assert load(BOTH, path=path, environ={}).get(RenewalSettings).ttl_s == 12
    path.write_text("[keeper]\nttl_s = 0")
    assert problems(path=path)[1] == f"{path}:keeper.ttl_s: expected a number, at least 1; got 0"


def test_a_missing_or_invalid_toml_file_is_reported(tmp_path: Path) -> None:
    assert "fleet.toml: No such file" in problems(path=tmp_path / "fleet.toml")[0]
    assert problems(toml_text="[keeper")[0].startswith("toml is not valid TOML:")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    assert "latin.toml is not valid UTF-8" in problems(path=tmp_path / "latin.toml")[0]


def test_all_problems_are_reported_at_once_each_with_its_source() -> None:
    text = '[keeper]\nttl_s = "long"\nmodes = "safe"\n[stoer]\nx = 1'
    message = problems(toml_text=text, environ={"ARGOSY_STORE_IS_TLS": "perhaps"})
    assert message == [
        "4 settings are wrong:",
        "toml:keeper.ttl_s: expected a number, at least 1; got 'long'",
        "toml:keeper.modes: unknown key; did you mean mode?",
        "toml:stoer: unknown section; did you mean store?",
        "ARGOSY_STORE_IS_TLS: expected true or false; got 'perhaps'",
    ]


def test_an_unknown_name_without_a_similar_one_gets_the_list_of_known_ones() -> None:
    assert problems(toml_text="[keeper]\nzzzz = 1") == [
        "1 setting is wrong:",
        "toml:keeper.zzzz: unknown key; known: margin_s, mode, spaces, ttl_s",
    ]


def test_a_section_that_is_no_table_is_reported() -> None:
    assert problems(toml_text="keeper = 3")[1] == "toml:keeper: expected a table, [keeper]"


def test_an_invalid_choice_is_reported() -> None:
    [_, message] = problems(environ={"ARGOSY_KEEPER_MODE": "quick"})
    assert message == "ARGOSY_KEEPER_MODE: expected text, one of safe, fast; got 'quick'"


def test_fields_are_checked_against_one_another() -> None:
    [_, message] = problems(environ={"ARGOSY_KEEPER_MARGIN_S": "40"})
    assert message == "keeper: margin_s (40.0) must be less than ttl_s (30.0)"


def test_a_variable_that_is_no_setting_is_ignored_with_a_warning() -> None:
    environ = {
        "ARGOSY_CONFIG": "fleet.toml",
        "ARGOSY_KEEPER_MARGINS": "3",
        "ARGOSY_REDIS_SERVICE_HOST": "10.0.0.1",
        "KEEPER_TTL_S": "x",
    }
    assert load(BOTH, environ=environ).ignored == {
        "ARGOSY_KEEPER_MARGINS": "unknown variable ARGOSY_KEEPER_MARGINS ignored; did you mean ARGOSY_KEEPER_MARGIN_S?",
        "ARGOSY_REDIS_SERVICE_HOST": "unknown variable ARGOSY_REDIS_SERVICE_HOST ignored; "
        'run "argosy config show" for all settings',
    }


def test_no_error_contains_a_secret() -> None:
    message = "\n".join(
        problems(
            toml_text="[store]\npassword = 12345\nurl = 7", environ={"ARGOSY_STORE_POOL_MAX": "redis://:hunter2@h"}
        )
    )
    assert "toml:store.password: expected text; got ***" in message
    assert "redis://:***@h" in message
    assert "12345" not in message


def test_shown_settings_have_their_source_and_no_secrets() -> None:
    loaded = load(
        BOTH,
        toml_text='[store]\nurl = "redis://:hunter2@cache/0"\nis_tls = true',
        environ={"ARGOSY_STORE_PASSWORD": "hunter2", "ARGOSY_KEEPER_SPACES": "a,b"},
    )
    rows = {(row.section, row.name): (row.value, row.source) for row in show(loaded)}
    assert rows == {
        ("keeper", "ttl_s"): ("30.0", "default"),
        ("keeper", "margin_s"): ("5.0", "default"),
        ("keeper", "mode"): ("safe", "default"),
        ("keeper", "spaces"): ("a,b", "ARGOSY_KEEPER_SPACES"),
        ("store", "url"): ("redis://:***@cache/0", "toml"),
        ("store", "password"): ("***", "ARGOSY_STORE_PASSWORD"),
        ("store", "pool_max"): ("", "default"),
        ("store", "is_tls"): ("true", "toml"),
    }


def test_every_setting_is_described_for_the_docs() -> None:
    docs = describe(BOTH)
    assert [doc.name for doc in docs[:2]] == ["ttl_s", "margin_s"]
    [pool] = [doc for doc in docs if doc.name == "pool_max"]
    assert (pool.section, pool.type, pool.default, pool.limits) == ("store", "int | None", "", "at least 1")
    assert (pool.env, pool.secret) == ("ARGOSY_STORE_POOL_MAX", False)
    assert pool.doc == "connections at most; none means no bound"
    [password] = [doc for doc in docs if doc.secret]
    assert password.name == "password"


def test_a_class_that_refuses_its_values_is_a_problem_like_any_other() -> None:
    @dataclass(frozen=True)
    class Picky:
        SECTION: ClassVar[str] = "picky"
        n: int = setting(1, doc="a number")

        def __post_init__(self) -> None:
            if self.n == 2:
                raise Invalid("two is not welcome")

    with pytest.raises(Invalid, match="picky: two is not welcome"):
        load([Picky], environ={"ARGOSY_PICKY_N": "2"})


def test_a_faulty_declaration_is_a_bug() -> None:
    @dataclass(frozen=True)
    class Unfit:
        SECTION: ClassVar[str] = "unfit"
        n: int = setting(0, min=1, doc="a default outside its own limits")

    @dataclass(frozen=True)
    class Bare:
        SECTION: ClassVar[str] = "bare"
        n: int = 1

    with pytest.raises(AssertionError, match="does not fit"):
        load([Unfit], environ={})
    with pytest.raises(AssertionError, match="must be declared with setting"):
        load([Bare], environ={})
    with pytest.raises(AssertionError, match="share an environment variable"):
        load([RenewalSettings, RenewalSettings], environ={})


def test_reading_settings_that_were_not_loaded_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="Store was not among"):
        load([RenewalSettings], environ={}).get(Store)
