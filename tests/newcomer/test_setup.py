"""The set-up under faults: no network, an interruption at any moment, no pip, another Python."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.newcomer.checkout import PYTHON, ROOT, SET_UP, STOP_S_MAX, Checkout, clone, wait_until
from tests.servers.valkey import free_port

SCRIPT = ROOT / "tools" / "setup_env.py"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    parent = tmp_path_factory.mktemp("setup")
    return clone(parent / "clone", parent / "home")


def one_line(text: str) -> str:
    """The error, when the rest is progress."""
    [error] = [line for line in text.splitlines() if line.startswith("set-up failed: ")]
    assert "Traceback" not in text
    return error


def test_without_a_network_the_error_is_one_line(checkout: Checkout) -> None:
    index = f"http://127.0.0.1:{free_port()}/simple"
    result = checkout.run(*SET_UP, ".venv-offline", PIP_INDEX_URL=index, PIP_FIND_LINKS="", PIP_RETRIES="1")
    assert result.returncode == 1
    assert "check the network" in one_line(result.stderr)
    assert len(result.stderr.splitlines()) == 2, result.stderr


def test_when_uv_reaches_no_index_pip_is_tried_and_one_line_ends_it(checkout: Checkout, tmp_path: Path) -> None:
    """uv does not read pip's configuration, so behind a mirror only pip may get through."""
    folder = checkout.folder / ".venv-mirror"
    index = f"http://127.0.0.1:{free_port()}/simple"
    assert checkout.run(PYTHON, "-m", "pip", "install", "-q", "--target", folder / "boot", uv_pin()).returncode == 0
    result = checkout.run(
        *SET_UP,
        folder,
        PIP_INDEX_URL=index,
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
        UV_INDEX_URL=index,
        UV_HTTP_RETRIES="0",
        UV_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert result.returncode == 1
    assert "cannot install requirements/run.txt" in one_line(result.stderr)
    assert "trying pip" in result.stderr


def uv_pin() -> str:
    return next(line.split('"')[1] for line in SCRIPT.read_text().splitlines() if line.startswith("UV ="))


@pytest.mark.timeout(600)
def test_an_interrupted_set_up_is_continued(checkout: Checkout, tmp_path: Path) -> None:
    env, log = checkout.folder / ".venv", tmp_path / "setup.log"
    packages = env / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"

    # Killed while packages are being installed, with one of them incomplete: uv takes such a package for installed.
    with checkout.start(*SET_UP, log=log) as killed:
        wait_until(lambda: (packages / "click").is_dir() or killed.poll() is not None, "packages are being installed")
        os.killpg(killed.pid, signal.SIGKILL)
    (env / ".installing").touch()
    (packages / "click" / "core.py").unlink(missing_ok=True)

    # Ctrl-C while kernels are being compiled, of which none is in an empty cache.
    with checkout.start(*SET_UP, log=log, NUMBA_CACHE_DIR=str(tmp_path / "kernels")) as stopped:

        def is_compiling() -> bool:
            assert stopped.poll() is None, log.read_text()
            return (env / ".stamp-run").exists() and not (env / ".installing").exists()

        wait_until(is_compiling, "kernels are being compiled")
        os.killpg(stopped.pid, signal.SIGINT)
        wait_until(lambda: stopped.poll() is not None, "the set-up has ended", STOP_S_MAX)
    assert stopped.returncode == 130
    assert "Traceback" not in log.read_text()
    assert "run the same command again" in log.read_text().splitlines()[-1]

    done = checkout.set_up()
    assert done.returncode == 0, done.stderr
    assert "setting up" not in done.stderr, "the packages were installed before the interruption"
    found = checkout.run(checkout.argosy, "search", "class SetupError", "tools")
    assert "setup_env.py" in found.stdout, found.stderr
    assert checkout.set_up().stderr == "", "nothing is left to do"


def test_a_python_without_pip_is_named(checkout: Checkout) -> None:
    """-I -S finds no site-packages, and so no pip."""
    result = checkout.run(PYTHON, "-I", "-S", "tools/setup_env.py", "run", ".venv-without-pip")
    assert result.returncode == 1
    assert f"{PYTHON} has no pip: install it" in one_line(result.stderr)
