"""The command line, `argosy NOUN VERB`: text for people, and JSON for programs with `--json`.

A command's module is imported when the command is called, and imports what it needs inside the command, so that
`argosy --help` and shell completion are fast. `root` lists the commands, `commands` has their base classes, `output`
and `errors` what they print; the other modules define one noun each, named after it.
"""

import sys

INTERRUPTED = 130  # the exit code of a shell for a command that Ctrl-C ended


def main() -> None:
    """Runs the command line of this process."""
    # Imported inside `try`, so that Ctrl-C during the imports ends quietly too.
    try:
        from argosy.cli.root import cli

        cli(prog_name="argosy")
    except KeyboardInterrupt:  # during imports; afterwards click handles it
        sys.exit(INTERRUPTED)
