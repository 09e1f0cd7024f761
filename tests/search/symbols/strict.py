"""Run as a program with numba switched off: the kernels over arrays that reject an index outside of their bounds.

Compiled kernels do not check their indices, so a slip would read or write memory outside of the array. Negative
indices are rejected, too: an index that wraps around in Python does not in a kernel.
"""

import random
import sys
from typing import Any

import numpy as np

from argosy.search.symbols import comment_mask, outline, python_outline, scopes, whitespace
from argosy.search.symbols.extract import definitions
from argosy.search.symbols.grammars import GRAMMARS
from tests.search.symbols.test_extract import PIECE_LIST

KERNELS = {
    comment_mask: ["_blank"],
    outline: ["_outline"],
    scopes: ["_nest", "_blank_arguments", "_place"],
    python_outline: ["_blank_bodies", "_columns"],
    whitespace: ["_squeeze"],
}
DEEP = [
    b"(",
    b"{",
    b"[",
    b"<",
    b"class a {",
    b"#if A\n",
    b"`${",
    b"((a=>{",
    b"typedef struct {",
    b"}",
    b")",
    b"'",
    b"#",
]
NOISE = b"(){}[]<>;,=:#@'\"`\\/*-!$\nabdeiflrRcnt \xff"


class Strict(np.ndarray[Any, Any]):
    def _check(self, key: Any) -> None:
        for axis, index in enumerate(key if isinstance(key, tuple) else (key,)):
            is_number = isinstance(index, int | np.integer)
            if is_number and not 0 <= int(index) < self.shape[axis]:
                raise IndexError(f"{index} is outside of {self.shape}")

    def __getitem__(self, key: Any) -> Any:
        self._check(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check(key)
        super().__setitem__(key, value)


def strict(kernel: Any) -> Any:
    def call(*arguments: Any) -> Any:
        return kernel(*(each.view(Strict) if isinstance(each, np.ndarray) else each for each in arguments))

    return call


def main(examples: int) -> int:
    for module, names in KERNELS.items():
        for name in names:
            setattr(module, name, strict(getattr(module, name)))
    dice, count = random.Random(7), 0
    languages = sorted(GRAMMARS)
    for _ in range(examples):
        pieces = [dice.choice(PIECE_LIST) for _ in range(dice.randrange(25))]
        noise = bytes(dice.choice(NOISE) for _ in range(dice.randrange(40)))
        count += len(definitions(dice.choice(languages), b"".join(pieces)))
        count += len(definitions(dice.choice(languages), noise))
    for language in ("C++", "TypeScript", "Python", "Rust", "Go"):
        for piece in DEEP:
            count += len(definitions(language, piece * 600 + b"int a;"))
    return count


if __name__ == "__main__":
    sys.stdout.write(f"{main(int(sys.argv[1]))}\n")
