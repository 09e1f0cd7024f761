"""A quota and a fair throttle in front of a WSGI application, on the standard library's own server.

    python examples/throttle_wsgi.py

The quota is outside: a client that has used it up does not reach the throttle, and is not blamed for it.
"""

# ruff: noqa: T201  (an example prints)

import threading
from collections.abc import Callable, Iterable
from http.client import HTTPConnection
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from argosy.base.clock import SystemClock
from argosy.throttle import FairThrottle
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.middleware import Quota, by_api_key, by_path, first_of
from argosy.throttle.middleware.wsgi import WsgiFairAdmission, WsgiLimitAdmission


def application(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Has no database connection left for /reports."""
    is_short = environ["PATH_INFO"].startswith("/reports")
    start_response("503 Service Unavailable" if is_short else "200 OK", [("content-type", "text/plain")])
    return [b"short\n" if is_short else b"hello\n"]


throttle = FairThrottle()
client_of = first_of(by_api_key(), by_path())
fair = WsgiFairAdmission(application, throttle, client_of=client_of)
guarded = WsgiLimitAdmission(
    fair, MemoryLimiter(clock=SystemClock()), Quota(limit=100, window_s=3600.0), client_of=client_of
)


class Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def statuses(port: int, path: str, count: int) -> tuple[list[int], dict[str, str]]:
    """The statuses of so many requests, and the headers of the last answer."""
    seen, headers = [], {}
    for _ in range(count):
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", path)
        answer = connection.getresponse()
        seen.append(answer.status)
        headers = dict(answer.headers)
        connection.close()
    return seen, headers


with make_server("127.0.0.1", 0, guarded, handler_class=Silent) as server:
    running = threading.Thread(target=server.serve_forever, args=(0.01,))
    running.start()

    seen, _ = statuses(server.server_port, "/reports", 100)
    print(f"reports: a shortage at first ({seen[0]}), then rejected by the throttle ({seen[-1]})")
    seen, headers = statuses(server.server_port, "/hello", 101)
    print(f"hello: {seen.count(200)} served, as many as the quota allows, then {seen[-1]}")
    print(f"the quota, in every response: {headers['ratelimit-policy']}")

    server.shutdown()
    running.join()
