"""The root command: help is quick, errors contain remedies, and JSON on request."""

import json
import resource
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from argosy import __version__
from argosy.base.errors import ArgosyError, Conflict, Invalid, Unavailable
from argosy.cli.commands import LazyGroup
from argosy.cli.output import json_option, print_json
from argosy.cli.root import COMMANDS, cli, command_tree

HELP_CPU_S_MAX = 0.5  # it takes 0.1 s; a machine under test load is slower, and a module that slips in costs more


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def run_process(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "argosy.cli", *words], capture_output=True, text=True)


def test_help_names_every_command_with_its_own_line() -> None:
    lines = run("--help").output.splitlines()
    for name, (_, line) in COMMANDS.items():
        assert any(shown.split(maxsplit=1) == [name, line] for shown in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_table_is_the_commands_own(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.get_short_help_str(limit=200) == COMMANDS[name][1]


def test_help_is_quick_and_loads_no_command() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = run_process("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert answer.returncode == 0
    assert after.ru_utime - before.ru_utime < HELP_CPU_S_MAX
    code = "import sys, argosy.cli.root; print(*({'rich', 'asyncio', 'argosy.cli.fleet'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == []


def test_the_version_is_printed() -> None:
    assert run("--version").output == f"argosy {__version__}\n"


def test_an_unknown_command_gets_a_suggestion() -> None:
    answer = run("benhc")
    assert answer.exit_code == 2
    assert answer.stderr.startswith('error: unknown command "benhc"; did you mean "bench"?\n')


def test_an_unknown_subcommand_gets_a_suggestion() -> None:
    answer = run("config", "shwo")
    assert answer.exit_code == 2
    assert answer.stderr.startswith('error: unknown command "shwo" of "cli config"; did you mean "show"?\n')


@pytest.mark.parametrize("words", [name.split()[1:] for name, _ in command_tree()])
def test_every_command_explains_itself(words: list[str]) -> None:
    answer = run(*words, "--help")
    assert answer.exit_code == 0
    assert answer.output.startswith(f"Usage: {' '.join(['cli', *words])}")


@pytest.mark.parametrize(("name", "command"), command_tree(), ids=lambda each: each if isinstance(each, str) else "")
def test_every_option_is_explained(name: str, command: click.Command) -> None:
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.help] == []


def failing(error: ArgosyError) -> click.Group:
    """The real group, with a failing command."""

    class Group(LazyGroup):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            return fail if cmd_name == "fail" else super().get_command(ctx, cmd_name)

    @click.command()
    @click.option("--count", type=int)
    @json_option
    def fail(count: int, as_json: bool) -> None:
        if count:
            print_json({"count": count})
        raise error

    return Group(table=COMMANDS)


@pytest.mark.parametrize(
    ("error", "code"), [(Invalid("fix it"), 2), (Conflict("too late"), 1), (Unavailable("down"), 1)]
)
def test_an_error_is_one_line_on_stderr_and_an_exit_code(error: ArgosyError, code: int) -> None:
    answer = CliRunner().invoke(failing(error), ["fail"])
    assert (answer.exit_code, answer.stdout, answer.stderr) == (code, "", f"error: {error}\n")


def test_with_json_an_error_is_an_object() -> None:
    answer = CliRunner().invoke(failing(Conflict("already taken")), ["fail", "--json"])
    assert answer.exit_code == 1
    assert json.loads(answer.stderr) == {"error": {"kind": "Conflict", "status": 409, "message": "already taken"}}


@pytest.mark.parametrize("words", [["--json", "--count", "x"], ["--count", "x", "--json"]])
def test_with_json_a_wrong_option_is_an_object_too(words: list[str]) -> None:
    answer = CliRunner().invoke(failing(Conflict("never reached")), ["fail", *words])
    assert answer.exit_code == 2
    assert json.loads(answer.stderr)["error"]["kind"] == "Invalid"


def test_an_error_never_contains_a_password() -> None:
    answer = CliRunner().invoke(failing(Unavailable("redis://me:hunter2@store is unreachable")), ["fail"])
    assert "hunter2" not in answer.stderr
    assert "store is unreachable" in answer.stderr


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "#compdef argosy"), ("fish", "complete ")]
)
def test_the_completion_script_is_printed(shell: str, word: str) -> None:
    answer = run("completion", shell)
    assert answer.exit_code == 0
    assert word in answer.output
    assert "_ARGOSY_COMPLETE" in answer.output


def test_the_shell_completes_commands_and_verbs() -> None:
    from click.shell_completion import ShellComplete

    completer = ShellComplete(cli, {}, "argosy", "_ARGOSY_COMPLETE")
    assert [item.value for item in completer.get_completions([], "be")] == ["bench"]
    assert [item.value for item in completer.get_completions(["config"], "")] == ["check", "show"]


def test_the_command_runs_as_its_own_process() -> None:
    answer = run_process("bench", "no-such-bench")
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: benchmark 'no-such-bench' not found")
