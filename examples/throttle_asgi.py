"""A fair throttle in front of a Starlette application: one noisy client and six quiet ones want more than its capacity.

    python examples/throttle_asgi.py

The application can serve eight requests per second. uvicorn serves it, once without and once with `FairAdmission`.
Clock and random numbers are fixed, so that the output is always the same; omit `clock` and `random` in production.
"""

# ruff: noqa: T201  (an example prints)

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from argosy.base.clock import seeded_random
from argosy.throttle import FairThrottle
from argosy.throttle.middleware import FairAdmission, by_header

SECONDS = 40
WANTED = {f"quiet-{n}": 1 for n in range(6)} | {"noisy": 12}  # requests a second


class LimitedBackend:
    """Eight pieces of work a second; and a clock, which goes by what the requests say."""

    def __init__(self) -> None:
        self.seconds, self.left = 0.0, 8

    def now(self) -> float:
        return self.seconds

    def wall(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    async def work(self, request: Request) -> Response:
        if float(request.headers["x-second"]) > self.seconds:
            self.seconds, self.left = self.seconds + 1, 8
        self.left -= 1
        return PlainTextResponse("done" if self.left >= 0 else "short", 200 if self.left >= 0 else 503)


def application(backend: LimitedBackend, *, is_fair: bool) -> Starlette:
    app = Starlette(routes=[Route("/", backend.work)])
    if is_fair:
        throttle = FairThrottle(clock=backend, random=seeded_random(1))
        app.add_middleware(FairAdmission, throttle=throttle, client_of=by_header("x-client"))
    return app


@contextmanager
def served(app: Starlette) -> Iterator[HTTPConnection]:
    # Said to be TCP, so that asyncio sends what it has at once.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    running = threading.Thread(target=server.run, args=([listener],))
    running.start()
    connection = HTTPConnection(*listener.getsockname())
    yield connection
    connection.close()
    server.should_exit = True
    running.join()


def crowd(connection: HTTPConnection) -> list[tuple[str, HTTPResponse]]:
    """Who was answered what, for some seconds."""
    random, answers = seeded_random(7), []
    for second in range(SECONDS):
        queue = [client for client, count in WANTED.items() for _ in range(count)]
        while queue:
            client = queue.pop(random.randrange(0, len(queue)))
            connection.request("GET", "/", headers={"x-client": client, "x-second": str(second)})
            answer = connection.getresponse()
            answer.read()
            answers.append((client, answer))
    return answers


def main() -> None:
    for is_fair in (False, True):
        backend = LimitedBackend()
        with served(application(backend, is_fair=is_fair)) as connection:
            answers = crowd(connection)
        count = Counter((client == "noisy", answer.status) for client, answer in answers)
        print("with the throttle:" if is_fair else "without the throttle:")
        for is_noisy, name, wanted in ((False, "quiet clients", 6 * SECONDS), (True, "noisy client", 12 * SECONDS)):
            print(f"  {name}: {count[is_noisy, 200]} of {wanted} served, {count[is_noisy, 429]} rejected")
    headers = next(answer.headers for _, answer in reversed(answers) if answer.status == 429)
    print(f"headers of a rejection: retry-after {headers['retry-after']}, ratelimit {headers['ratelimit']}")


if __name__ == "__main__":
    main()
