"""Conventions of any command line: examples, suggestions, exit codes, colours, completion, a manual page."""

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from argosy import __version__
from argosy.cli.examples import EXAMPLES, GROUP_EXAMPLES_MAX, examples_of
from argosy.cli.help import manual_page
from argosy.cli.root import cli, command_tree

COMMAND = [sys.executable, "-m", "argosy.cli"]
ROOT = Path(__file__).parents[2]
LEAVES = [name.partition(" ")[2] for name, command in command_tree() if not isinstance(command, click.Group)]
GROUPS = [name.split()[1:] for name, command in command_tree() if isinstance(command, click.Group)]


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="argosy")


def parse_example(line: str) -> str:
    """Parses the words after `argosy` up to a pipe or a redirection; the path of the command that they call."""
    words = re.split(r"(?<= )[|<>] ", line)
    [line] = [part for part in words if part.startswith("argosy ")]
    ctx: click.Context = click.Context(cli, info_name="argosy")
    command: click.Command | None = cli
    rest = shlex.split(line, comments=True)[1:]
    while isinstance(command, click.Group) and rest:
        name = rest.pop(0)
        command = command.get_command(ctx, name)
        assert command is not None, f"unknown command {name!r}"
        if not isinstance(command, click.Group):
            return command.make_context(name, rest, parent=ctx).command_path
        ctx = click.Context(command, parent=ctx, info_name=name)
    raise AssertionError(f"{line!r} calls no command")


def test_every_command_has_examples_and_every_example_a_command() -> None:
    assert sorted(EXAMPLES) == sorted(LEAVES)


@pytest.mark.parametrize("path", LEAVES)
def test_an_example_names_commands_options_and_values_that_exist(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in EXAMPLES[path]:
        for file in re.findall(r"[\w.-]+\.(?:jsonl|txt|toml)\b", line):
            (tmp_path / file).touch()
        assert parse_example(line) == f"argosy {path}"


def test_an_example_with_an_option_that_does_not_exist_is_found() -> None:
    with pytest.raises(click.NoSuchOption):
        parse_example("argosy up . --nodez 3")


@pytest.mark.parametrize("path", LEAVES)
def test_help_ends_with_the_examples(path: str) -> None:
    shown = run(*path.split(), "--help").output
    assert shown.endswith("\nExamples:\n" + "".join(f"  {line}\n" for line in EXAMPLES[path]))


@pytest.mark.parametrize("words", GROUPS)
def test_help_of_a_group_ends_with_examples_of_its_commands(words: list[str]) -> None:
    examples = examples_of(" ".join(words))
    assert 1 <= len(examples) <= GROUP_EXAMPLES_MAX
    assert run(*words, "--help").output.endswith("\nExamples:\n" + "".join(f"  {line}\n" for line in examples))
    for line in examples:
        assert parse_example(line).startswith(" ".join(["argosy", *words]))


@pytest.mark.parametrize("words", [["-V"], ["--version"], ["version"]])
def test_the_version_is_printed(words: list[str]) -> None:
    answer = run(*words)
    assert (answer.exit_code, answer.output) == (0, f"argosy {__version__}\n")


@pytest.mark.parametrize("words", [[], ["repo"], ["repo", "add"], ["job", "schedule", "put"]])
def test_help_of_a_command_is_what_its_option_shows(words: list[str]) -> None:
    answer = run("help", *words)
    assert answer.exit_code == 0
    assert answer.output == run(*words, "--help").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["benhc"], 'unknown command "benhc"; did you mean "bench"?'),
        (["repo", "lsit"], 'unknown command "lsit" of "argosy repo"; did you mean "list"?'),
        (["job", "schedule", "lits"], 'unknown command "lits" of "argosy job schedule"; did you mean "list"?'),
        (["help", "repo", "lsit"], 'unknown command "lsit" of "argosy repo"; did you mean "list"?'),
        (["up", "--nodez", "3"], 'unknown option "--nodez"; did you mean "--nodes" or "--name"?'),
        (["repo", "list", "--regsitry", "x"], 'unknown option "--regsitry"; did you mean "--registry"?'),
        (["--versoin"], 'unknown option "--versoin"; did you mean "--version"?'),
        (["repo", "remove"], "missing argument 'NAME'"),
        (["up", "--port", "x"], "invalid value for '--port': 'x' is not a whole number"),
    ],
)
def test_a_usage_error_is_a_line_with_the_cause_and_one_with_the_help(words: list[str], message: str) -> None:
    answer = run(*words)
    path = " ".join(
        ["argosy", *(word for word in words if word in ("repo", "job", "schedule", "up", "list", "remove"))]
    )
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr == f'error: {message}\nrun "{path} --help" for usage\n'


@pytest.mark.parametrize("words", GROUPS)
def test_every_group_suggests_its_commands(words: list[str]) -> None:
    command: click.Command | None = cli
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert isinstance(command, click.Group)
    name = max(command.list_commands(click.Context(command)), key=len)
    mistyped = name[1] + name[0] + name[2:]
    assert f'"{name}"' in run(*words, mistyped).stderr


def test_ctrl_c_ends_with_130_and_without_a_traceback() -> None:
    """A command that waits for its input; the process shows by its prompt to the terminal that it runs."""
    code = (
        "import click, signal\n"
        "from argosy.cli.root import cli\n"
        "@cli.command('wait', hidden=True)\n"
        "def wait():\n    print('ready', flush=True)\n    signal.pause()\n"
        "cli.table = {**cli.table}\n"
        "cli.get_command = lambda ctx, name: wait\n"
        "cli(['wait'])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=30)
    assert (process.returncode, shown) == (130, "\n")


@pytest.mark.parametrize("words", ["config show", "config show --json", "help --man", "completion bash"])
def test_a_reader_that_closes_the_pipe_is_no_error(words: str) -> None:
    """`head -1` ends first, and no error is printed."""
    command = f"{shlex.join(COMMAND)} {words} | head -n 1"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert answer.stderr == ""
    assert len(answer.stdout.splitlines()) == 1


def shown_on_a_terminal(*words: str, **environ: str) -> bytes:
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", **environ}
    with subprocess.Popen([*COMMAND, *words], stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        try:
            while part := os.read(master, 65536):
                shown += part
        except OSError:  # how Linux reports that the other end is closed
            pass
        process.wait(timeout=30)
    os.close(master)
    return shown


COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-9]")


def test_colours_are_for_terminals_and_the_environment_may_turn_them_off(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a harbour\n")
    words = ("search", "harbour", str(tmp_path))
    assert COLOUR.search(shown_on_a_terminal(*words))
    assert not COLOUR.search(shown_on_a_terminal(*words, NO_COLOR="1"))


def test_colours_may_be_forced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a harbour\n")

    def piped(**environ: str) -> bytes:
        environment = {**os.environ, **environ}
        return subprocess.run([*COMMAND, "search", "harbour", tmp_path], capture_output=True, env=environment).stdout

    assert not COLOUR.search(piped())
    assert COLOUR.search(piped(FORCE_COLOR="1"))
    assert not COLOUR.search(piped(FORCE_COLOR="1", NO_COLOR="1"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rep"], "repo"),
        (["repo", "pi"], "pin"),
        (["up", "--nod"], "--nodes"),
        (["serve", "--role", "gate"], "gateway"),
        (["help", "repo", "pi"], "pin"),
        (["up", "sr"], "<path>"),
        (["search", "word", "sr"], "<path>"),
        (["config", "show", "--config", "arg"], "<path>"),
    ],
)
def test_bash_completes_commands_options_values_and_paths(words: list[str], expected: str, tmp_path: Path) -> None:
    launcher = tmp_path / "argosy"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m argosy.cli "$@"\n')
    launcher.chmod(0o755)
    typed = shlex.join(["argosy", *words])
    script = f"""
        eval "$(argosy completion bash)"
        compopt() {{ echo "<path>"; }}      # tells readline to complete a path
        COMP_WORDS=({typed}); COMP_CWORD={len(words)}
        _argosy_completion argosy
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    answer = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert answer.stderr == ""
    assert answer.stdout.split() == [expected]


def test_the_manual_page_names_every_command_and_option() -> None:
    page = manual_page().replace("\\-", "-")
    for name, command in command_tree()[1:]:
        assert f".SS {name}\n" in page
        for option in command.params:
            if isinstance(option, click.Option):
                assert f"\n.B {', '.join(sorted(option.opts, key=len))}" in page


def test_the_manual_page_is_ascii_and_no_line_is_taken_for_a_request() -> None:
    page = manual_page()
    assert page.isascii()
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests <= {'.\\"', ".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".nf", ".fi", ".RS", ".RE"}
    assert run("help", "--man").output == page == (ROOT / "docs" / "reference" / "argosy.1").read_text()


INTERRUPTED_IMPORT = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
from argosy.cli import main
main()
"""


def test_ctrl_c_while_modules_are_imported_prints_no_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
