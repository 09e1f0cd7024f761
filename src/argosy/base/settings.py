"""Settings: declared once per package as frozen dataclasses, loaded from defaults, a TOML file and the environment.

    @dataclass(frozen=True)
    class KeeperSettings:
        SECTION: ClassVar[str] = "keeper"
        ttl_s: float = setting(30.0, min=1, doc="how long a lease lives unless it is renewed")

The environment (`ARGOSY_KEEPER_TTL_S`) overrides the file (`[keeper] ttl_s = 30`), which overrides the default. An
invalid value is an error. So is an unknown section or key of the file, because the file belongs to Argosy. An
unknown ARGOSY_ variable is a warning, because others write the environment too (Kubernetes sets ARGOSY_REDIS_PORT for a
service named argosy-redis). All problems are reported at once, each with its source, because fixing one at a time
would need as many restarts.

A class may add `check(self) -> Iterable[str]` for constraints across fields; it yields one text per problem.
"""

import math
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from argosy.base.errors import Invalid
from argosy.base.redact import MASK, redact

T = TypeVar("T")

ENV_PREFIX = "ARGOSY_"
CONFIG_VARIABLE = "ARGOSY_CONFIG"  # names the file; every other variable is a setting

SUGGESTIONS_MAX = 3
SIMILARITY_MIN = 0.8  # of difflib; below it a suggestion is more often wrong than right

_Key: TypeAlias = tuple[str, str]  # section and name


# -- the types that a setting may have, and the values allowed within each --

Value: TypeAlias = int | float | bool | str | tuple[str, ...] | None

_NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list of texts"}
_BASES: dict[Any, type] = {int: int, float: float, bool: bool, str: str, tuple[str, ...]: tuple}
_BOOLS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True)
class SettingType:
    """One of int, float, bool, str and tuple (of str), with its limits; both limits are allowed values themselves."""

    base: type
    is_optional: bool = False
    min: float | None = None
    max: float | None = None
    choices: tuple[str, ...] | None = None

    def __str__(self) -> str:
        name = "tuple[str, ...]" if self.base is tuple else self.base.__name__
        return f"{name} | None" if self.is_optional else name

    def limits(self) -> str:
        """The limits within the type, as text; empty if there are none."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.min is not None and self.max is not None:
            return f"{self.min} to {self.max}"
        if self.min is not None:
            return f"at least {self.min}"
        return "" if self.max is None else f"at most {self.max}"

    def parse(self, text: str) -> object:
        """The value that a text represents, or the text itself if it represents none: `check` then rejects it.

        An empty text is None where None is allowed, so that a variable can undo what a file has set.
        """
        if self.is_optional and not text.strip():
            return None
        if self.base is str:
            return text
        if self.base is tuple:
            # A trailing comma or a space after one is no empty text in the list.
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.base is bool:
            return _BOOLS.get(text.strip().lower(), text)
        try:
            number: int | float = self.base(text)
        except ValueError:
            return text
        return number

    def check(self, raw: object) -> Value:
        """`raw` as a value of this kind: TOML's lists become tuples, and integers are accepted as floats."""
        if raw is None and self.is_optional:
            return None
        value = self._convert(raw)
        if not self._is_within(value):
            raise Invalid(f"expected {_NOUNS[self.base]}, {self.limits()}")
        return value

    def format(self, value: Value) -> str:
        """The value as written in an environment variable."""
        if value is None:
            return ""
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _convert(self, raw: object) -> Value:
        match raw:
            # bool before int, because Python counts True as the integer 1 and `port = true` must be an error.
            case bool() if self.base is bool:
                return raw
            case bool():
                pass  # Python counts it among the ints; here it is none
            case int() if self.base is int:
                return raw
            case int() | float() if self.base is float and math.isfinite(raw):
                return float(raw)  # infinity and NaN would slip through the limits
            case str() if self.base is str:
                return raw
            case list() | tuple() if self.base is tuple and all(isinstance(part, str) for part in raw):
                return tuple(raw)
        limits = self.limits()
        raise Invalid(f"expected {_NOUNS[self.base]}" + (f", {limits}" if limits else ""))

    def _is_within(self, value: Any) -> bool:
        if self.choices:
            return all(part in self.choices for part in (value if self.base is tuple else [value]))
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


def setting_type(
    annotation: Any,
    *,
    min: float | None = None,
    max: float | None = None,
    choices: Sequence[str] | None = None,
) -> SettingType:
    """The kind for an annotation; any other annotation is a bug in the declaration."""
    is_optional = False
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not types.NoneType]
        is_optional = len(parts) == 1 and len(get_args(annotation)) == 2
        annotation = parts[0] if is_optional else annotation
    assert annotation in _BASES, f"a setting is int, float, bool, str, tuple[str, ...] or one | None; got {annotation}"
    base = _BASES[annotation]
    assert (min is None and max is None) or base in (int, float), f"only numbers have limits, not {base.__name__}"
    assert choices is None or base in (str, tuple), f"only texts have choices, not {base.__name__}"
    return SettingType(base, is_optional, min, max, tuple(choices) if choices else None)


# -- declaring, loading and showing settings --


def setting(
    default: T,
    *,
    doc: str,
    min: float | None = None,
    max: float | None = None,
    choices: Sequence[str] | None = None,
    secret: bool = False,
) -> T:
    """A field of a settings class; both limits are allowed values themselves."""
    limits = {"doc": doc, "min": min, "max": max, "choices": tuple(choices) if choices else None, "secret": secret}
    declared: T = field(default=default, metadata={"setting": limits})
    return declared


@dataclass(frozen=True)
class SettingDoc:
    """One setting, as shown in the docs."""

    section: str
    name: str
    type: str
    default: str
    limits: str
    doc: str
    env: str
    secret: bool


@dataclass(frozen=True)
class ShownSetting:
    """One setting, as shown to an operator: secrets masked, with the source of the value."""

    section: str
    name: str
    value: str
    source: str


class Loaded:
    """The settings of one process, by class: `loaded.get(KeeperSettings).ttl_s`."""

    def __init__(
        self,
        by_class: Mapping[type, Any],
        sources: Mapping[_Key, str],
        ignored: Mapping[str, str],
        path: Path | None = None,
    ) -> None:
        self._by_class = by_class
        self.path = path  # the file they came from, to be read again
        self.sources = sources
        self.ignored = ignored  # ARGOSY_ variables that are no settings, each with the warning about it

    def get(self, cls: type[T]) -> T:
        assert cls in self._by_class, f"{cls.__name__} was not among the sections that were loaded"
        found: T = self._by_class[cls]
        return found

    def sections(self) -> list[type]:
        return list(self._by_class)

    def with_sections(self, sections: Mapping[type, Any]) -> "Loaded":
        """A copy with some sections replaced."""
        return Loaded({**self._by_class, **sections}, self.sources, self.ignored, self.path)


def load(
    sections: Sequence[type],
    *,
    path: Path | None = None,
    toml_text: str | None = None,
    environ: Mapping[str, str],
) -> Loaded:
    """Reads the settings of `sections`; raises one Invalid that lists all problems."""
    loading = _Loading(declarations(sections))
    loading.read_toml(*_toml(path, toml_text))
    loading.read_environ(environ)
    by_class = {cls: loading.build(cls) for cls in sections}
    # At the end, so that one start shows everything that is wrong.
    if problems := loading.problems:
        count = "1 setting is wrong" if len(problems) == 1 else f"{len(problems)} settings are wrong"
        raise Invalid("\n  ".join([f"{count}:", *problems]))
    return Loaded(by_class, loading.sources, loading.ignored, path)


def describe(sections: Sequence[type]) -> list[SettingDoc]:
    """Every setting of `sections`, in the order declared."""
    return [
        SettingDoc(
            section=spec.section,
            name=spec.name,
            type=str(spec.kind),
            default=MASK if spec.secret and spec.default else redact(spec.kind.format(spec.default)),
            limits=spec.kind.limits(),
            doc=spec.doc,
            env=spec.env,
            secret=spec.secret,
        )
        for spec in declarations(sections).values()
    ]


def show(loaded: Loaded) -> list[ShownSetting]:
    """Every setting with its value and source: `default`, the file, or the environment variable."""
    rows = []
    for (section, name), spec in declarations(loaded.sections()).items():
        value = getattr(loaded.get(spec.cls), name)
        shown = MASK if spec.secret and value else redact(spec.kind.format(value))
        rows.append(ShownSetting(section, name, shown, loaded.sources.get((section, name), "default")))
    return rows


@dataclass(frozen=True)
class Spec:
    """One declared setting."""

    cls: type
    section: str
    name: str
    kind: SettingType
    default: Value
    doc: str
    secret: bool

    @property
    def env(self) -> str:
        return f"{ENV_PREFIX}{self.section}_{self.name}".upper()


def declarations(sections: Sequence[type]) -> dict[_Key, Spec]:
    """The declarations in `sections`; an invalid one is a bug in the program, so it is asserted."""
    specs = [spec for cls in sections for spec in _specs(cls)]
    by_key = {(spec.section, spec.name): spec for spec in specs}
    # `a_b` of section `c` and `b` of section `c_a` would have one variable.
    assert len({spec.env for spec in specs}) == len(specs), "two settings share an environment variable"
    return by_key


def _specs(cls: Any) -> Iterator[Spec]:
    hints = get_type_hints(cls)
    for each in fields(cls):
        meta = each.metadata.get("setting")
        assert meta is not None, f"{cls.__name__}.{each.name} must be declared with setting(...)"
        kind = setting_type(hints[each.name], min=meta["min"], max=meta["max"], choices=meta["choices"])
        try:
            # The default obeys the same limits as every other value.
            default = kind.check(each.default)
        except Invalid as wrong:
            raise AssertionError(f"the default of {cls.__name__}.{each.name} does not fit: {wrong}") from None
        yield Spec(cls, cls.SECTION, each.name, kind, default, meta["doc"], meta["secret"])


class _Loading:
    """One run of `load`: the values found so far, and the problems."""

    def __init__(self, specs: dict[_Key, Spec]) -> None:
        self.problems: list[str] = []
        self.sources: dict[_Key, str] = {}
        self.ignored: dict[str, str] = {}
        self._specs = specs
        self._section_names = list(dict.fromkeys(section for section, _ in specs))
        self._found: dict[_Key, Value] = {}
        # Sections with a value that could not be read.
        self._faulty: set[str] = set()

    def read_toml(self, table: Mapping[str, Any], source: str) -> None:
        for section, content in table.items():
            # The file is written for Argosy alone, so an unknown name is a mistake in it.
            if section not in self._section_names:
                self._unknown(f"{source}:{section}", "section", section, self._section_names)
            elif not isinstance(content, dict):
                self.problems.append(f"{source}:{section}: expected a table, [{section}]")
            else:
                self._read_table(section, content, source)

    def _read_table(self, section: str, content: Mapping[str, Any], source: str) -> None:
        for name, raw in content.items():
            spec = self._specs.get((section, name))
            if spec is None:
                names = [known for of, known in self._specs if of == section]
                self._unknown(f"{source}:{section}.{name}", "key", name, names)
            else:
                self._take(spec, raw, source, f"{source}:{section}.{name}")

    def read_environ(self, environ: Mapping[str, str]) -> None:
        by_env = {spec.env: spec for spec in self._specs.values()}
        # Sorted, so that the same environment gives the same list of problems.
        for env in sorted(environ):
            if spec := by_env.get(env):
                self._take(spec, spec.kind.parse(environ[env]), env, env)
            elif env.startswith(ENV_PREFIX) and env != CONFIG_VARIABLE:
                hint = _suggest_variables(env, self._specs.values()) or 'run "argosy config show" for all settings'
                self.ignored[env] = f"unknown variable {env} ignored; {hint}"

    def build(self, cls: Any) -> Any:
        """The settings of one class, or None if there are problems."""
        # `check` compares settings with each other, which makes no sense if one of them could not be read.
        if cls.SECTION in self._faulty:
            return None
        values = {name: value for (section, name), value in self._found.items() if section == cls.SECTION}
        try:
            built = cls(**values)
        except Invalid as wrong:  # from a `__post_init__`
            self.problems.append(f"{cls.SECTION}: {redact(str(wrong))}")
            return None
        complaints: Iterable[str] = built.check() if hasattr(built, "check") else ()
        self.problems += [f"{cls.SECTION}: {redact(complaint)}" for complaint in complaints]
        return built

    def _take(self, spec: Spec, raw: object, source: str, place: str) -> None:
        key = (spec.section, spec.name)
        self.sources[key] = source
        try:
            self._found[key] = spec.kind.check(raw)
        except Invalid as wrong:
            got = MASK if spec.secret else redact(repr(raw))
            self.problems.append(f"{place}: {wrong}; got {got}")
            self._faulty.add(spec.section)

    def _unknown(self, place: str, what: str, name: str, known: Sequence[str]) -> None:
        from difflib import get_close_matches  # only worth loading once something is wrong

        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
        self.problems.append(f"{place}: unknown {what}; {hint}")


def _suggest_variables(env: str, specs: Collection[Spec]) -> str:
    """The setting with nearly this name; else the settings of this name in other sections."""
    from difflib import get_close_matches

    names = [spec.env.removeprefix(ENV_PREFIX) for spec in specs]
    similar = get_close_matches(env.removeprefix(ENV_PREFIX), names, n=1, cutoff=SIMILARITY_MIN)
    near = [ENV_PREFIX + name for name in similar]
    near = near or [spec.env for spec in specs if env.endswith(f"_{spec.name.upper()}")][:SUGGESTIONS_MAX]
    return f"did you mean {' or '.join(near)}?" if near else ""


def _toml(path: Path | None, text: str | None) -> tuple[Mapping[str, Any], str]:
    """The file's tables and its name for messages."""
    assert path is None or text is None, "give the settings as a path or as text, not as both"
    source = "toml" if path is None else str(path)
    if path is not None:
        text = _read(path)
    if text is None:
        return {}, source
    import tomllib  # slow to load, and most commands have no file

    try:
        return tomllib.loads(text), source
    except tomllib.TOMLDecodeError as wrong:
        raise Invalid(f"{source} is not valid TOML: {wrong}") from wrong


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as missing:
        raise Invalid(f"cannot read {path}: {missing.strerror}") from missing
    except UnicodeDecodeError as wrong:
        raise Invalid(f"{path} is not valid UTF-8: {wrong}") from wrong
