"""File systems that a program cannot write to, without a container: what is made read-only, and a user whom it binds.

Root may write whatever the mode of a file says. It is therefore run without its capabilities, for which `setpriv`, a
part of util-linux, suffices; no namespace, no other user and no mount is needed, so that this works wherever tests run.
"""

import os
import shutil
import stat
import subprocess
import sysconfig
import venv
from pathlib import Path

import argosy

SOURCE = Path(argosy.__file__).resolve().parent
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


def seal(folder: Path) -> None:
    """Takes away every right to write, of the owner as well."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def unseal(folder: Path) -> None:
    """What is sealed cannot be deleted either."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IRWXU)


def install(prefix: Path, *, with_kernels: bool) -> Path:
    """An environment at `prefix` with a copy of the package, as the image has it; returns its Python.

    Dependencies are those of the environment that runs the tests.
    """
    venv.create(prefix, symlinks=True, with_pip=False)
    site = next((prefix / "lib").glob("python3*/site-packages"))
    ignored = shutil.ignore_patterns() if with_kernels else shutil.ignore_patterns("*.nbi", "*.nbc")
    shutil.copytree(SOURCE, site / "argosy", ignore=ignored)
    ours = Path(sysconfig.get_path("purelib"))
    (site / "dependencies.pth").write_text(f"{ours}\n")
    # The environment's own link to the source tree comes after, and the copy is found first.
    launcher = prefix / "bin" / "argosy"
    launcher.write_text(f'#!/bin/sh\nexec {prefix}/bin/python -m argosy.cli "$@"\n')
    launcher.chmod(0o755)
    return prefix / "bin" / "python"


def environment(home: Path, **changes: str) -> dict[str, str]:
    """As in a container: nothing of this machine's settings, and a home of its own."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
    return {**kept, "HOME": str(home), **changes}


def run(command: list[str], environ: dict[str, str], *, within_s: float) -> subprocess.CompletedProcess[str]:
    full = [*UNPRIVILEGED, *command]
    return subprocess.run(full, env=environ, capture_output=True, text=True, timeout=within_s)
