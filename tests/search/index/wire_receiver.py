"""Loads an index from its standard input and prints the documents it lists."""

import sys

from argosy.search.index.reader import documents
from argosy.search.index.sections import verify
from argosy.search.index.wire import load

READ_BYTES = 10_007

index = load(iter(lambda: sys.stdin.buffer.read(READ_BYTES), b""))
assert verify(index) == []
sys.stdout.write("".join(f"{each!r}\n" for each in documents(index)))
