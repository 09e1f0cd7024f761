"""A virtual environment for peers that cannot be installed beside Argosy, created on demand from pinned, hashed wheels.

The job queues need an older redis-py than Argosy. A peer that cannot be installed is named in the notes of the results.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

from argosy.base.errors import Invalid, Unavailable
from argosy.bench.harness import ROOT, SOURCE

LOCK = ROOT / "requirements" / "peers.txt"
HOME = Path(sys.prefix) / "peers"
NAMES = ("arq", "celery", "dramatiq", "rq")
INSTALL_S_MAX = 300.0
ERROR_CHARACTERS_MAX = 500  # of the output of an installer


def ensure_environment(home: Path = HOME, lock: Path = LOCK) -> Path:
    """The Python of the environment, created if it does not exist or the lock file has changed. Unavailable if it
    cannot be created here."""
    if not lock.is_file():
        raise Invalid(f"peers are installed from {lock.name}, which only a checkout of the repository has")
    python = home / "bin" / "python"
    stamp = home / ".stamp"
    wanted = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    home.mkdir(parents=True, exist_ok=True)
    with home.with_name(".lock-peers").open("w") as lock_file:  # beside the environment, because uv locks a file inside
        fcntl.flock(lock_file, fcntl.LOCK_EX)  # two concurrent benchmarks would install over each other
        if not (stamp.is_file() and stamp.read_text() == wanted):
            _install(home, python, lock)
            stamp.write_text(wanted)  # last: an installation that was interrupted is done again
    return python


def _install(home: Path, python: Path, lock: Path) -> None:
    uv = Path(sys.prefix) / "boot" / "bin" / "uv"
    venv.create(home, with_pip=not uv.is_file(), symlinks=True)
    by_uv, by_pip = [str(uv), "pip", "install", "--python", str(python)], [str(python), "-m", "pip", "install"]
    try:
        done = subprocess.run(
            [*(by_uv if uv.is_file() else by_pip), "-q", "--require-hashes", "-r", str(lock)],
            capture_output=True,
            text=True,
            timeout=INSTALL_S_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"the peers cannot be installed: {error}") from error
    if done.returncode:
        raise Unavailable(f"the peers cannot be installed: {done.stderr.strip()[-ERROR_CHARACTERS_MAX:]}")


def versions(python: Path) -> dict[str, str]:
    """The installed versions, by name; what is missing is left out."""
    code = (
        "import sys; from importlib.metadata import version, PackageNotFoundError\n"
        "for name in sys.argv[1:]:\n"
        "    try: print(name, version(name))\n"
        "    except PackageNotFoundError: pass"
    )
    done = subprocess.run([str(python), "-c", code, *NAMES], capture_output=True, text=True, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


def process_environment() -> dict[str, str]:
    """For processes of that Python: the source of Argosy and of the peers, and nothing of Argosy's dependencies."""
    return {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"}
