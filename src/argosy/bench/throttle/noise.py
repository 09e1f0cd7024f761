"""`python -m argosy.bench.throttle.noise STORE NAMESPACE CLIENTS`: instances that keep the shared rows changing.

It says `ready` when it has begun, and runs until it is ended.
"""

import itertools
import sys
import time
from contextlib import ExitStack

from argosy.throttle import FairThrottle, Outcome, ThrottleSettings, ThrottleSync

INSTANCES = 3
PAUSE_S = 0.005  # between two outcomes: about what admitted requests of a congested fleet report


def main(store: str, namespace: str, clients: int) -> None:
    settings = ThrottleSettings(store=store, namespace=namespace)
    throttles = [FairThrottle() for _ in range(INSTANCES)]
    with ExitStack() as stack:
        for throttle in throttles:
            stack.enter_context(ThrottleSync.open(throttle, settings))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for number in itertools.count():
            throttles[number % INSTANCES].report(f"client-{number % clients}", Outcome.FAILURE)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
