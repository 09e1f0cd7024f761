"""Finds the Pythons that CI runs the tests on: the oldest and the newest supported ones of this machine.

    python3 tools/interpreters.py       prints one line for each: version, tab, path

A Python counts when it is a released version in the supported range, is not an environment itself, and has pip.
"""

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setup_env import NEWEST, OLDEST, dotted

PROBE_S_MAX = 60.0
PROBE = """
import pip, sys, venv
if sys.version_info.releaselevel == "final" and sys.prefix == sys.base_prefix:
    print("%d.%d.%d\t%s" % (*sys.version_info[:3], sys.executable))
"""
EVERYWHERE = "/usr/bin"  # a distribution's own Python, whatever stands before it on the PATH


def list_candidates(path, pyenv_root):
    """Every python3 and python3.N on a search path and among the versions of pyenv."""
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1))]
    folders = [folder for folder in path.split(os.pathsep) if folder]
    if pyenv_root:
        folders += sorted(glob.glob(os.path.join(glob.escape(pyenv_root), "versions", "*", "bin")))
    programs = [os.path.join(folder, name) for folder in [*folders, EVERYWHERE] for name in names]
    return [program for program in dict.fromkeys(programs) if os.access(program, os.X_OK)]


def find_pyenv_root():
    """pyenv's shims run the version of the working directory only; its versions folder has all of them."""
    try:
        found = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, timeout=PROBE_S_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(found.stdout).strip() if found.returncode == 0 else ""


def probe(program):
    """(version, path) of a usable Python, None for any other program; a shim leads to what it would run."""
    try:
        found = subprocess.run(
            [program, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PROBE_S_MAX
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version, tab, path = os.fsdecode(found.stdout).strip().partition("\t")
    if found.returncode or not tab:
        return None
    numbers = tuple(int(number) for number in version.split("."))
    return (numbers, path) if OLDEST <= numbers[:2] <= NEWEST else None


def choose(found):
    """The oldest and the newest, once if they are of one version; of equal versions the one that was found first."""
    by_version = {}
    for version, path in found:
        by_version.setdefault(version, path)
    ends = dict.fromkeys([min(by_version), max(by_version)]) if by_version else {}
    return [(version, by_version[version]) for version in ends]


def main():
    candidates = list_candidates(os.environ.get("PATH", ""), find_pyenv_root())
    chosen = choose(each for each in map(probe, candidates) if each is not None)
    if not chosen:
        sys.exit(f"found no Python {dotted(OLDEST)} to {dotted(NEWEST)} with pip: install one")
    for version, path in chosen:
        sys.stdout.write(f"{dotted(version)}\t{path}\n")


if __name__ == "__main__":
    main()
