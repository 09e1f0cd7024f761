"""The mutants in `catalogue.toml`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One wrong change. `survives` says why no test can tell, where that is so."""

    name: str
    file: str  # within the package of the throttle
    tests: str  # the test that should notice
    old: str
    new: str
    survives: str = ""


def _read() -> tuple[Mutant, ...]:
    text = (Path(__file__).parent / "catalogue.toml").read_text()
    return tuple(Mutant(**fields) for fields in tomllib.loads(text)["mutant"])


MUTANTS = _read()
