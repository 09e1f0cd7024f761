"""Calls every command of the installed argosy, each in a process of its own, and prints the results as JSON.

Run by the Python of the environment under test, which has no test packages. The parent imports only what the default
install must have, so a fork is as good as a fresh start, and takes a third of its time.
"""

import json
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import aiohttp  # noqa: F401
import click
import rich.table  # noqa: F401

import argosy.app  # noqa: F401
from argosy.cli.examples import EXAMPLES
from argosy.cli.root import cli, command_tree

TIMEOUT_S = 120  # of a command; on an idle machine none takes three seconds
# Where the first example is a long run, a server, or about files that are not here.
CALLS = {
    "up": "argosy up no-such-directory",
    "serve": "argosy serve --role jobs",
    "search": "argosy search 'harbour' .",
    "find": "argosy find notes.txt",
    "config check": "argosy config check",
    "ipni assignments": "argosy ipni assignments",
    "ipni freeze": "argosy ipni freeze",
    "ipni publish": "argosy ipni publish notes.txt --once",
    "throttle eval": "argosy throttle eval --scenario noisy --seeds 1 --instances 1 --jobs 1",
    "sim chaos": "argosy sim chaos --seeds 1 --jobs 1",
    "sim fleet": "argosy sim fleet --repos 3 --nodes 2 --kill 0 --drain 0",
    "sim jobs": "argosy sim jobs --seeds 1 --jobs 1",
    "sim throttle": "argosy sim throttle --seeds 1 --instances 2 --jobs 1",
}


def call(words: list[str]) -> dict[str, object]:
    """The exit code and the output of one command."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("stdout", "stderr")]
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            run(words, files)
        _, status = os.waitpid(child, 0)
        stdout, stderr = (file.read_text() for file in files)
        took_s = time.monotonic() - began
        return {"code": os.waitstatus_to_exitcode(status), "stdout": stdout, "stderr": stderr, "took_s": took_s}


def run(words: list[str], files: list[Path]) -> None:
    signal.alarm(TIMEOUT_S)  # ends the process with a code that no command has
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        cli(words, prog_name="argosy")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 99
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    results: dict[str, dict[str, object]] = {}
    for name, command in command_tree():
        path = name.partition(" ")[2]
        results[f"{path} --help"] = call([*path.split(), "--help"])
        if not isinstance(command, click.Group):
            words = shlex.split(CALLS.get(path, EXAMPLES[path][0]), comments=True)[1:]
            cut = next((at for at, word in enumerate(words) if word in ("<", ">", "|")), len(words))
            results[path] = call(words[:cut])
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
