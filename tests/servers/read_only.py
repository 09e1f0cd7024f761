"""File systems that a program cannot write to, without a container: read-only files, and a user without privileges.

Root may write regardless of a file's mode. The program therefore runs without root's capabilities, for which `setpriv`,
a part of util-linux, suffices; no namespace, user or mount is needed, so this works wherever tests run.
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
    """Remove every write permission, including the owner's."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def unseal(folder: Path) -> None:
    """Restore write permission, without which the directory cannot be deleted."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IRWXU)


def install(prefix: Path, *, with_kernels: bool) -> Path:
    """Install a copy of the package at `prefix`, as the image has it; return its Python.

    Dependencies are those of the environment that runs the tests.
    """
    venv.create(prefix, symlinks=True, with_pip=False)
    site = next((prefix / "lib").glob("python3*/site-packages"))
    ignored = shutil.ignore_patterns() if with_kernels else shutil.ignore_patterns("*.nbi", "*.nbc")
    shutil.copytree(SOURCE, site / "argosy", ignore=ignored)
    ours = Path(sysconfig.get_path("purelib"))
    (site / "dependencies.pth").write_text(f"{ours}\n")
    # The environment's link to the source tree comes later on the path, so the copy is found first.
    launcher = prefix / "bin" / "argosy"
    launcher.write_text(f'#!/bin/sh\nexec {prefix}/bin/python -m argosy.cli "$@"\n')
    launcher.chmod(0o755)
    return prefix / "bin" / "python"


def environment(home: Path, **changes: str) -> dict[str, str]:
    """As in a container: none of this machine's settings, and a separate home."""
    inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
    return {**inherited, "HOME": str(home), **changes}


def run(command: list[str], environ: dict[str, str], *, within_s: float) -> subprocess.CompletedProcess[str]:
    full = [*UNPRIVILEGED, *command]
    return subprocess.run(full, env=environ, capture_output=True, text=True, timeout=within_s)
