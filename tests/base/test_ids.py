"""Random ids made by the pool."""

import os
from uuid import UUID

from argosy.base.backends.ids import new_uuid

MANY = 2_000


def test_ids_are_random_uuids_in_their_usual_form() -> None:
    ids = [new_uuid() for _ in range(MANY)]
    assert len(set(ids)) == MANY
    for text in ids:
        assert str(UUID(text)) == text
        assert UUID(text).version == 4
        assert UUID(text).variant == "specified in RFC 4122"


def test_a_forked_child_generates_its_own_ids() -> None:
    new_uuid()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, new_uuid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() not in {new_uuid() for _ in range(MANY)}
    os.close(read)
    os.close(write)
