"""`python -m tests.fuzz`: fuzzes every decoder for FUZZ_SECONDS in total, from FUZZ_SEED or a printed random seed."""

import os
import sys
import time
from random import Random, SystemRandom

from tests.fuzz.formats import run, targets

TURNS = 200


def main() -> None:
    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    seed = int(os.environ.get("FUZZ_SEED") or SystemRandom().randrange(1 << 32))
    sys.stdout.write(f"seed {seed}, {seconds:g} s\n")
    random = Random(seed)
    fed = valid = 0
    end = time.monotonic() + seconds
    every = targets()
    while time.monotonic() < end:
        for target in every:
            valid += run(target, random, TURNS)
            fed += TURNS
    sys.stdout.write(f"{len(every)} decoders, {fed} inputs, {valid} of them valid: nothing but Invalid was raised\n")


if __name__ == "__main__":
    main()
