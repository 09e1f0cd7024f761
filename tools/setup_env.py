"""Builds .venv from nothing but python3 and pip, and does nothing when it is already right.

    python3 tools/setup_env.py run|dev

uv does the installing (seconds instead of half a minute); plain pip is the fallback where no uv wheel exists.
The package itself is put on the path by a .pth file, so that no build backend has to be fetched.
"""

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENV = ROOT / ".venv"
PYTHON = ENV / "bin" / "python"
BOOT = ENV / "boot"
UV = "uv==0.13.7"
LOCKS = {"run": "requirements/run.txt", "dev": "requirements/dev.txt"}
LAUNCHER = """#!{python}
import sys
from argosy.cli import main
if __name__ == "__main__":      # worker processes import this file again
    sys.exit(main())
"""


def fingerprint(lock: str) -> str:
    """What the environment depends on: the lock, this script, the interpreter and where the tree stands."""
    parts = [(ROOT / lock).read_bytes(), Path(__file__).read_bytes(), sys.version.encode(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def is_ready(wanted: str) -> bool:
    """The dev environment contains all of the run environment, so it also serves `run`."""
    roles = ("run", "dev") if wanted == "run" else ("dev",)
    stamps = {role: ENV / f".stamp-{role}" for role in roles}
    return any(s.exists() and s.read_text() == fingerprint(LOCKS[role]) for role, s in stamps.items())


def install(lock: str) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    uv = BOOT / "bin" / "uv"
    try:
        if not uv.exists():
            subprocess.run([*pip, "install", "-q", "--root-user-action=ignore", "--target", str(BOOT), UV], check=True)
        command = [str(uv), "pip", "install", "-q", "--python", str(PYTHON)]
        subprocess.run([*command, "--require-hashes", "-r", lock], cwd=ROOT, check=True)
    except (subprocess.CalledProcessError, OSError) as why:
        sys.stderr.write(f"uv is not usable here ({why}); installing with plain pip\n")
        command = [*pip, "--python", str(PYTHON), "install", "-q", "--root-user-action=ignore"]
        subprocess.run([*command, "--require-hashes", "-r", lock], cwd=ROOT, check=True)


def link_package() -> None:
    site = next((ENV / "lib").glob("python3*/site-packages"))
    (site / "argosy-dev.pth").write_text(f"{ROOT / 'src'}\n")
    launcher = ENV / "bin" / "argosy"
    launcher.write_text(LAUNCHER.format(python=PYTHON))
    launcher.chmod(0o755)


def warm_kernels(wanted: str) -> None:
    """Compiles the search kernels, so that nobody's first search has to; again when one of them was edited.

    To run, those that a first index and search need: the running process compiles the others. A developer gets all.
    """
    folder = ROOT / "src" / "argosy" / "search"
    sources = sorted([*folder.glob("kernels/*.py"), *folder.glob("symbols/*.py")])
    state = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    stamps = {role: ENV / f".stamp-kernels-{role}" for role in ("run", "dev")}
    ready = {role for role, stamp in stamps.items() if stamp.exists() and stamp.read_text() == state}
    if ready & {wanted, "dev"}:
        return
    command = [PYTHON, "-m", "argosy.search.kernels.worker", *["--all"] * (wanted == "dev")]
    code = subprocess.run(command, cwd=ROOT).returncode     # which shows how far it is
    if code:
        raise SystemExit(code)
    stamps[wanted].write_text(state)


def main(wanted: str) -> None:
    install_all(wanted)
    warm_kernels(wanted)


def install_all(wanted: str) -> None:
    if is_ready(wanted):
        return
    lock = LOCKS[wanted]
    sys.stderr.write(f"setting up .venv from {lock}\n")
    if PYTHON.exists() and not is_same_python():
        shutil.rmtree(ENV)
    if not PYTHON.exists():
        venv.create(ENV, with_pip=False, symlinks=True)
    install(lock)
    link_package()
    (ENV / f".stamp-{wanted}").write_text(fingerprint(lock))


def is_same_python() -> bool:
    probe = subprocess.run([PYTHON, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
    return probe.returncode == 0 and probe.stdout.strip() == sys.version.strip()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LOCKS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(LOCKS)}")
    if sys.version_info < (3, 11):  # noqa: UP036 (this script is what finds out)
        sys.exit(f"argosy needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    main(sys.argv[1])
