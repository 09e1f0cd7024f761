"""A proxy before a server: optionally slow, optionally with TLS, and switchable to another server."""

import socket
import ssl
import threading
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16


class Proxy:
    """Forwards connections to `target`; client data is delayed by `delay_s`."""

    def __init__(self, target: int, *, tls: ssl.SSLContext | None = None) -> None:
        self.target = target
        self.delay_s = 0.0
        self._tls = tls
        self._stopped = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"redis{'s' if self._tls else ''}://{HOST}:{self.port}/0"

    def switch(self, target: int) -> None:
        """Sends new connections to another server, and closes the open ones, as a failover does."""
        self.target = target
        self._hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()
        self._listener.close()
        self._hang_up()

    def _hang_up(self) -> None:
        while self._open:
            connection = self._open.pop()
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side was first
            connection.close()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                client, _ = self._listener.accept()
                if self._tls:
                    client = self._tls.wrap_socket(client, server_side=True)
                server = socket.create_connection((HOST, self.target))
            except OSError:
                continue  # closed, or no server: the client detects it
            self._open += (client, server)
            threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_held_back: bool) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                if is_held_back and self.delay_s:
                    self._stopped.wait(self.delay_s)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # either end has disconnected
