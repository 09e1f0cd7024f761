"""Optional dependencies: the extra that contains a missing package, and the command that installs it.

Argosy is not on PyPI, so the error names the missing packages themselves, with the versions in the metadata of the
installed distribution. A checkout has a pyproject.toml instead of metadata, and `make setup` installs from its lock
file. Both are read only when a package is missing.
"""

import re
import sys
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

from argosy.base.errors import Invalid

NAME = "argosy"
DEFAULT = ""  # stands for the packages that every installation has
ALL = "all"
# Distributions whose modules have another name.
DISTRIBUTIONS = {
    "google": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "hiredis": "redis",  # comes with redis[hiredis]
    "opentelemetry": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "re2": "google-re2",
}
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")

Requirements: TypeAlias = dict[str, list[str]]  # by extra; DEFAULT has those of every installation


def load_module(module: str, *, extra: str, purpose: str) -> Any:
    """Imports a module that needs the packages of `extra`, or raises Invalid with the command that installs them."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing_package(error, extra=extra, purpose=purpose) from error


def missing_package(
    error: ImportError, *, extra: str | None = None, purpose: str = "this command"
) -> ImportError | Invalid:
    """One line about a package that is not installed; the error itself if no extra has it.

    Without `extra` the largest extra that has the package is taken, because a command that needs several of its
    packages would otherwise fail once for each.
    """
    name = (error.name or "").partition(".")[0]
    # An error inside an installed package must not be reported as a missing one.
    if not isinstance(error, ModuleNotFoundError) or name in ("", NAME):
        return error  # a broken installation
    package = DISTRIBUTIONS.get(name, name)
    extras = {
        key: wanted for key, wanted in read_requirements().items() if key != ALL and package in map(name_of, wanted)
    }
    if extra is None and extras:
        extra = max(extras, key=lambda key: (key == DEFAULT, len(extras[key])))
    if extra is None:
        return error
    return Invalid(f"{purpose} needs the package {package}, which is not installed: run `{install_command(extra)}`")


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra beside the Python of this process."""
    # Not `pip install argosy[extra]`: Argosy is on no package index (decision 0038).
    wanted = read_requirements().get(extra, [])
    # Only what is missing, unless everything is there and the import failed for another reason.
    lacking = [each for each in wanted if not _is_installed(name_of(each))] or wanted
    packages = " ".join(quote(each) for each in lacking)
    checkout = _checkout()
    if checkout is None:
        return f"{_installer()} {packages}"
    if extra == DEFAULT or set(lacking) <= set(read_requirements()[ALL]):
        return "make setup"
    return f"{quote(str(checkout / '.venv/boot/bin/uv'))} pip install --python {quote(sys.executable)} {packages}"


def read_requirements() -> Requirements:
    """What the installed distribution requires; of a checkout, what its pyproject.toml declares."""
    try:
        return requirements_from_metadata(distribution(NAME).requires or [])
    except PackageNotFoundError:
        checkout = _checkout()
        assert checkout is not None, "argosy is neither installed nor run from a checkout"
        return requirements_from_project(tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8")))


def requirements_from_metadata(lines: list[str]) -> Requirements:
    """From lines such as `slatedb==0.17.0; extra == 'jobs'`."""
    found: Requirements = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        for extra in _EXTRA.findall(marker) or [DEFAULT]:
            found.setdefault(extra, []).append(requirement.strip())
    return found


def requirements_from_project(project: dict[str, Any]) -> Requirements:
    """From pyproject.toml, where an extra may include others: `argosy[jobs,redis]`."""
    declared = {DEFAULT: project["project"]["dependencies"], **project["project"]["optional-dependencies"]}

    def expand(requirement: str) -> list[str]:
        if not requirement.startswith(f"{NAME}["):
            return [requirement]
        inner = requirement.partition("[")[2].partition("]")[0].split(",")
        return [each for extra in inner for line in declared[extra.strip()] for each in expand(line)]

    return {
        extra: list(dict.fromkeys(each for line in lines for each in expand(line))) for extra, lines in declared.items()
    }


def name_of(requirement: str) -> str:
    """`redis` of `redis[hiredis]>=5.1`."""
    found = _NAME.match(requirement)
    assert found is not None, requirement
    return found.group()


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def _checkout() -> Path | None:
    """The checkout that this module lies in, unless an installed distribution does."""
    try:
        distribution(NAME)
    except PackageNotFoundError:
        folder = Path(__file__).resolve().parents[3]
        return folder if (folder / "pyproject.toml").exists() else None
    return None


def _installer() -> str:
    """How packages get into the environment of this Python: by pipx, by its own pip, or by uv where it has none."""
    # pipx manages its environments itself; a package that its pip installs is lost with the next upgrade.
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f"pipx inject {NAME}"
    python = quote(sys.executable)
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
