"""The other job queues: an environment of their own, made on demand from pinned and hashed wheels.

They want an older redis-py than we do, so they cannot live in ours. Who cannot be had is told, not passed over.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

from argosy.base.errors import Invalid, Unavailable

ROOT = Path(__file__).resolve().parents[4]
SOURCE = Path(__file__).resolve().parents[3]
LOCK = ROOT / "requirements" / "peers.txt"
HOME = Path(sys.prefix) / "peers"
NAMES = ("arq", "celery", "dramatiq", "rq")
INSTALL_S_MAX = 300.0
SAID_MAX = 500  # characters of what an installer said


def environment(home: Path = HOME, lock: Path = LOCK) -> Path:
    """The Python that has them. Unavailable if it cannot be made here."""
    if not lock.is_file():
        raise Invalid(f"the peers are installed from {lock.name}, which only a checkout of the repository has")
    python = home / "bin" / "python"
    stamp = home / ".stamp"
    wanted = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    home.mkdir(parents=True, exist_ok=True)
    with home.with_name(".lock-peers").open("w") as lock_dir:  # not inside, where uv has its own
        fcntl.flock(lock_dir, fcntl.LOCK_EX)  # two benches at once would install over each other
        if not (stamp.is_file() and stamp.read_text() == wanted):
            _install(home, python, lock)
            stamp.write_text(wanted)
    return python


def _install(home: Path, python: Path, lock: Path) -> None:
    uv = Path(sys.prefix) / "boot" / "bin" / "uv"
    venv.create(home, with_pip=not uv.is_file(), symlinks=True)
    by_uv, by_pip = [str(uv), "pip", "install", "--python", str(python)], [str(python), "-m", "pip", "install"]
    try:
        ran = subprocess.run(
            [*(by_uv if uv.is_file() else by_pip), "-q", "--require-hashes", "-r", str(lock)],
            capture_output=True,
            text=True,
            timeout=INSTALL_S_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"the peers cannot be installed: {error}") from error
    if ran.returncode:
        raise Unavailable(f"the peers cannot be installed: {ran.stderr.strip()[-SAID_MAX:]}")


def versions(python: Path) -> dict[str, str]:
    """What is there, by name; who is missing is left out."""
    code = (
        "import sys; from importlib.metadata import version, PackageNotFoundError\n"
        "for name in sys.argv[1:]:\n"
        "    try: print(name, version(name))\n"
        "    except PackageNotFoundError: pass"
    )
    ran = subprocess.run([str(python), "-c", code, *NAMES], capture_output=True, text=True, check=True)
    return dict(line.split() for line in ran.stdout.splitlines())


def variables() -> dict[str, str]:
    """For their processes: our contenders, and nothing of our environment."""
    return {**os.environ, "PYTHONPATH": str(SOURCE)}
