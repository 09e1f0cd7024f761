"""Runs mutants: `python -m tests.throttle.mutants.hunt FOLDER PART PARTS` takes every PARTSth mutant from PART on.

A copy of the package lies in FOLDER. One interpreter loads all that the tests need but the throttle itself, and is
forked for each mutant: the change is written into the copy, the fork imports it and runs the mutant's tests up to the
first that fails. Prints one JSON object: pytest's exit code by the name of the mutant, and that of the control, which
runs all the same tests on the unchanged copy.
"""

import gc
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

from tests.throttle.mutants.catalogue import MUTANTS, Mutant

CONTROL = "control"
# Asserts need no rewriting, because their messages are not read, and no plugin for long runs is needed.
OPTIONS = (
    "-x",
    "-q",
    "--assert=plain",
    *(
        f"-pno:{name}"
        for name in (
            "cacheprovider",
            "unraisableexception",
            "threadexception",
            "junitxml",
            "pastebin",
            "faulthandler",
            "logging",
        )
    ),
)
BROKEN = 99  # pytest itself did not get that far
LOADED = (
    "pytest", "hypothesis", "hypothesis.strategies", "mmh3", "msgspec", "redis", "redis.sentinel", "xxhash",
    "argosy.base.settings", "argosy.base.metrics", "argosy.base.tracing", "argosy.base.backends.servers",
    "argosy.ownership.factory", "argosy.registry.factory",
)  # fmt: skip


def hunt(folder: Path, part: int, parts: int) -> dict[str, int]:
    source = folder / "argosy"
    shutil.copytree(_package(), source, ignore=shutil.ignore_patterns("*.pyc.*", "*.tmp.*"))  # being written just now
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # a mutant's bytecode would be taken for that of the next
    for name in LOADED:
        importlib.import_module(name)
    _make_quick()
    found = {CONTROL: _forked(sorted({mutant.tests for mutant in MUTANTS[part::parts]}))}
    for mutant in MUTANTS[part::parts]:
        found[mutant.name] = _mutated(source / "throttle" / mutant.file, mutant)
    return found


def _package() -> Path:
    spec = importlib.util.find_spec("argosy")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _make_quick() -> None:
    """The same examples every time, and the first that fails is enough: nobody reads it."""
    from hypothesis import Phase, settings

    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("hunt", derandomize=True, database=None, deadline=None, phases=phases)
    settings.load_profile("hunt")


def _mutated(path: Path, mutant: Mutant) -> int:
    text, stat = path.read_text(), path.stat()
    assert text.count(mutant.old) == 1, f"the source has changed: write {mutant.name!r} anew"
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        return _forked([mutant.tests])
    finally:
        path.write_text(text)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _forked(tests: list[str]) -> int:
    """The exit code of pytest in a fork of this process."""
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            import pytest

            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            gc.disable()  # the fork is gone before it would be worth while
            code = int(pytest.main([*OPTIONS, *tests]))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(hunt(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
