"""How a process of a fleet ends."""

import os
import subprocess
import sys
from textwrap import dedent

PROGRAM_S_MAX = 60.0


def test_a_sigterm_while_python_ends_does_not_change_the_exit_code() -> None:
    """A supervisor may send it to a node that has drained by itself."""
    program = """
        import os, signal
        from argosy.app.process import Role, run
        from argosy.app.settings import SECTIONS
        from argosy.base.settings import load

        async def drain():
            os.kill(os.getpid(), signal.SIGTERM)

        settings = load(SECTIONS, path=None, environ=os.environ)
        run(settings, [Role.HOLD], extend=lambda process: process.tasks.append(drain()))
        # Python sets a handler of its own back to the default when it ends, but lets an ignored signal be.
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)
    """
    environ = {**os.environ, "ARGOSY_NODE_PORT": "0", "ARGOSY_OWNERSHIP_STORE": "memory://"}
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], env=environ, capture_output=True, text=True, timeout=PROGRAM_S_MAX
    )
    assert done.returncode == 0, done.stderr
