"""Creates the environment of a checkout from nothing but python3 and pip; does nothing when it is already right.

    python3 tools/setup_env.py run|dev [FOLDER]         FOLDER is .venv unless given

uv installs the packages (seconds instead of half a minute); plain pip is the fallback where uv cannot. The package
itself is put on the path by a .pth file, so no build backend has to be downloaded.

A run that was interrupted leaves a marker, and the next run starts from an empty environment: a half-installed package
looks installed. Downloads are not repeated, because uv and pip keep them in their caches.

Every Python from 3.6 must be able to parse this file, so that an unsupported one prints one line and no SyntaxError.
"""

import sys

OLDEST = (3, 11)
NEWEST = (3, 14)  # pyproject.toml, README.md and .ci/run state the same range


def dotted(version: tuple) -> str:
    return ".".join(map(str, version))


def check_python(version: tuple = sys.version_info[:3]) -> None:
    if not OLDEST <= version[:2] <= NEWEST:
        sys.exit(
            f"argosy needs Python {dotted(OLDEST)} to {dotted(NEWEST)}, and {sys.executable} is {dotted(version)}: "
            f"install a supported one and name it, for example: make run PYTHON=python{dotted(NEWEST)}"
        )


if __name__ == "__main__":
    check_python()  # before the imports below, which older versions lack

import contextlib  # noqa: E402
import fcntl  # noqa: E402
import hashlib  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import shlex  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import venv  # noqa: E402
from importlib.util import find_spec  # noqa: E402
from pathlib import Path  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
ENV = ROOT / ".venv"
UV = "uv==0.13.7"
REASON_MAX = 300  # characters of an installer's complaint in our one line
LOCKS = {"run": "requirements/run.txt", "dev": "requirements/dev.txt"}
INTERRUPTED = 130  # the exit code of a shell for a command that Ctrl-C ended
# What pip writes when a package index cannot be reached.
NETWORK_TROUBLE = re.compile(
    "Failed to (?:establish a new connection|resolve)[^'\"]*|[Rr]ead timed out|CERTIFICATE_VERIFY_FAILED[^'\"]*|"
    "Cannot connect to proxy"
)
# A line "#!PATH" breaks at the first space of PATH and has a length limit; a quoted word of sh has neither. -P keeps
# the working directory off the import path, which `python -m` would put there.
LAUNCHER = """#!/bin/sh
exec {python} -P -m argosy.cli "$@"
"""


class SetupError(Exception):
    """The set-up cannot go on; the message is one line and says what to do."""


def python_of(env: Path) -> Path:
    return env / "bin" / "python"


def fingerprint(lock: str, env: Path) -> str:
    """What the environment depends on: the lock, this script, the interpreter and where the two stand."""
    parts = [(ROOT / lock).read_bytes(), Path(__file__).read_bytes(), identity(env).encode(), os.fsencode(ROOT)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def identity(env: Path) -> str:
    """An environment belongs to one interpreter and one place: the first lines of its scripts name both."""
    return f"{sys.version}\n{os.fsencode(env)!r}\n"


def is_ready(wanted: str, env: Path) -> bool:
    """The dev environment contains all of the run environment, so it also serves `run`."""
    roles = ("run", "dev") if wanted == "run" else ("dev",)
    stamps = {role: env / f".stamp-{role}" for role in roles}
    if marker(env).exists() or not python_of(env).exists():
        return False
    return any(s.exists() and s.read_text() == fingerprint(LOCKS[role], env) for role, s in stamps.items())


def marker(env: Path) -> Path:
    """Exists while packages are being installed, and after an installation that was interrupted."""
    return env / ".installing"


def install_all(wanted: str, env: Path) -> None:
    if is_ready(wanted, env):
        return
    lock = LOCKS[wanted]
    say(f"setting up {shown(env)} from {lock}")
    if find_spec("pip") is None:
        raise SetupError(
            f"{sys.executable} has no pip: install it (Debian, Ubuntu: apt install python3-pip), "
            "or name another Python, for example: make run PYTHON=python3.13"
        )
    stamp = env / ".stamp-python"
    is_ours = stamp.exists() and stamp.read_text() == identity(env) and python_of(env).exists()
    is_others = os.path.lexists(python_of(env)) and not is_ours
    is_broken = marker(env).exists()
    env.mkdir(parents=True, exist_ok=True)
    marker(env).touch()
    if is_others or is_broken:
        clear(env)
    if not python_of(env).exists():
        venv.create(env, with_pip=False, symlinks=True)
    stamp.write_text(identity(env))
    install(lock, env)
    link_package(env)
    (env / f".stamp-{wanted}").write_text(fingerprint(lock, env))
    marker(env).unlink()


def clear(env: Path) -> None:
    """Empties the folder, except for the marker: a run that is interrupted here is continued by the next."""
    for entry in env.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry != marker(env):
            entry.unlink()


def install(lock: str, env: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    uv = env / "boot" / "bin" / "uv"
    log = env / "setup.log"
    log.write_text("")
    failure = ""
    if not uv.exists():
        command = [*pip, "install", "-q", "--root-user-action=ignore", "--target", str(env / "boot"), UV]
        failure = run_installer(command, log)
        trouble = NETWORK_TROUBLE.search(log.read_text(errors="replace"))
        if failure and trouble:
            raise SetupError(
                f"cannot download {UV}: {trouble.group()}: check the network, the proxy ($HTTPS_PROXY) or the index "
                f"(pip config set global.index-url), then run the same command again; see {shown(log)}"
            )
    if not failure:
        command = [str(uv), "pip", "install", "-q", "--python", str(python_of(env)), "--require-hashes", "-r", lock]
        failure = run_installer(command, log)
        if not failure:
            return
    say(f"uv cannot install the packages ({failure}): trying pip")
    command = [*pip, "--python", str(python_of(env)), "install", "-q", "--root-user-action=ignore"]
    failure = run_installer([*command, "--require-hashes", "-r", lock], log)
    if failure:
        raise SetupError(
            f"cannot install {lock}: {failure}: check the network and the free disk space, then run the same command "
            f"again; see {shown(log)}"
        )


def run_installer(command: list, log: Path) -> str:
    """Empty if the command succeeded, otherwise its reason on one line; all that it wrote is in the log."""
    with log.open("a+b") as output:
        began = output.seek(0, os.SEEK_END)
        try:
            code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output, stdin=subprocess.DEVNULL).returncode
        except OSError as error:
            return str(error)
        output.seek(began)
        text = output.read().decode(errors="replace")
    if not code:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "cause", "caused by"))]
    reason = "; ".join(errors or lines[-1:]) or f"it ended with code {code}"
    return reason if len(reason) <= REASON_MAX else reason[:REASON_MAX] + "…"


def link_package(env: Path) -> None:
    site = env / "lib" / f"python{dotted(sys.version_info[:2])}" / "site-packages"
    # Relative to its folder and so free of the checkout's own path: site.py reads the file as UTF-8 from 3.13 on and in
    # the locale's encoding before, and a path that it cannot decode ends every start of Python.
    link = os.path.relpath(ROOT / "src", site)
    (site / "argosy-dev.pth").write_bytes(os.fsencode(link) + b"\n")
    launcher = env / "bin" / "argosy"
    launcher.write_bytes(os.fsencode(LAUNCHER.format(python=shlex.quote(str(python_of(env))))))
    launcher.chmod(0o755)


def compile_kernels(wanted: str, env: Path) -> None:
    """Compiles the search kernels, so that no first search has to wait; again when one of them was edited.

    For `run`, those that a first index and search need: the running process compiles the others. A developer gets all.
    """
    folder = ROOT / "src" / "argosy" / "search"
    sources = sorted([*folder.glob("kernels/*.py"), *folder.glob("symbols/*.py")])
    state = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    stamps = {role: env / f".stamp-kernels-{role}" for role in ("run", "dev")}
    ready = {role for role, stamp in stamps.items() if stamp.exists() and stamp.read_text() == state}
    if ready & {wanted, "dev"}:
        return
    command = [python_of(env), "-m", "argosy.search.precompiler", *["--all"] * (wanted == "dev")]
    # Ctrl-C is blocked until the worker handles it: while Python starts, it would print a traceback.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        worker = subprocess.Popen(command, cwd=ROOT)  # it shows its progress
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        code = worker.wait()
    except BaseException:
        worker.kill()
        raise
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise SetupError("the search kernels could not be compiled: see above")
    stamps[wanted].write_text(state)


@contextlib.contextmanager
def exclusive():
    """Two set-ups of one checkout take turns. The lock is on this script, which is there before any environment."""
    with Path(__file__).open("rb") as script:
        try:
            fcntl.flock(script, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this checkout")
            fcntl.flock(script, fcntl.LOCK_EX)
        yield


def shown(path: Path) -> str:
    return os.path.relpath(path, ROOT)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(wanted: str, env: Path) -> None:
    try:
        with exclusive():
            install_all(wanted, env)
            compile_kernels(wanted, env)
    except SetupError as error:
        sys.exit(f"set-up failed: {error}")
    except OSError as error:
        sys.exit(f"set-up failed: {error}")
    except KeyboardInterrupt:
        say("set-up interrupted: run the same command again to continue")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in LOCKS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(LOCKS)} [FOLDER]")
    main(sys.argv[1], Path(os.path.abspath(ROOT / sys.argv[2])) if len(sys.argv) == 3 else ENV)
