"""How often this process looks for garbage.

Answers are made of thousands of small objects that live for a millisecond and are freed without a search for them. By
default the interpreter searches after every 700 of them, and what was imported is looked through again each time a
search is thorough; here that was a tenth of all CPU time under load.
"""

import gc

YOUNG_MAX = 20_000  # new objects that hold others, after which the youngest are looked through
ROUNDS = (10, 10)  # so many of those before the older ones are, and again


def collect_rarely() -> None:
    """To be called once, when all is set up: what is there now is there for good, and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *ROUNDS)
