"""The kinds of value a setting may have, and what is allowed within a kind.

A kind turns the text of an environment variable into a value (`parse`), holds a value from anywhere to what was
declared (`check`), and spells it for people. What does not fit is Invalid, with a message that says what was expected.
"""

import math
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union, get_args, get_origin

from argosy.base.errors import Invalid

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
class Kind:
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
        """What is allowed within the type, in words; empty if everything is."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.min is not None and self.max is not None:
            return f"{self.min} to {self.max}"
        if self.min is not None:
            return f"at least {self.min}"
        return "" if self.max is None else f"at most {self.max}"

    def parse(self, text: str) -> object:
        """The value a text stands for, or the text itself where it stands for none: `check` will refuse that.

        An empty text is None where None is allowed, so that a variable can undo what a file has set.
        """
        if self.is_optional and not text.strip():
            return None
        if self.base is str:
            return text
        if self.base is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.base is bool:
            return _BOOLS.get(text.strip().lower(), text)
        try:
            number: int | float = self.base(text)
        except ValueError:
            return text
        return number

    def check(self, raw: object) -> Value:
        """`raw` as a value of this kind: TOML's lists become tuples, and whole numbers will do for floats."""
        if raw is None and self.is_optional:
            return None
        value = self._typed(raw)
        if not self._is_within(value):
            raise Invalid(f"expected {_NOUNS[self.base]}, {self.limits()}")
        return value

    def spell(self, value: Value) -> str:
        """The value as one would write it in an environment variable."""
        if value is None:
            return ""
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _typed(self, raw: object) -> Value:
        match raw:
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


def kind_of(
    annotation: Any,
    *,
    min: float | None = None,
    max: float | None = None,
    choices: Sequence[str] | None = None,
) -> Kind:
    """The kind an annotation asks for; any other annotation is a bug in the declaration."""
    is_optional = False
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not types.NoneType]
        is_optional = len(parts) == 1 and len(get_args(annotation)) == 2
        annotation = parts[0] if is_optional else annotation
    assert annotation in _BASES, f"a setting is int, float, bool, str, tuple[str, ...] or one | None; got {annotation}"
    base = _BASES[annotation]
    assert (min is None and max is None) or base in (int, float), f"only numbers have limits, not {base.__name__}"
    assert choices is None or base in (str, tuple), f"only texts have choices, not {base.__name__}"
    return Kind(base, is_optional, min, max, tuple(choices) if choices else None)
