"""The door handle: `argosy NOUN VERB`, for people by default and for machines with `--json`.

A command's module is loaded when the command is asked for, and imports what it works with inside the command, so that
`argosy --help` and shell completion answer at once.
"""

import sys

INTERRUPTED = 130  # the exit code of a shell for a command that Ctrl-C ended


def main() -> None:
    """Runs the command line of this process."""
    try:
        from argosy.cli.root import cli

        cli(prog_name="argosy")
    except KeyboardInterrupt:  # while the modules are imported; afterwards click handles it
        sys.exit(INTERRUPTED)
