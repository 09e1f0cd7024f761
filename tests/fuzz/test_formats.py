"""A short fuzzing run with a fixed seed; `make fuzz` runs longer."""

from random import Random

import pytest

from argosy.base.errors import Invalid
from tests.fuzz.formats import Target, mutate, run, targets

TARGETS = targets()


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_a_decoder_accepts_its_samples_and_rejects_the_rest_as_invalid(target: Target) -> None:
    taken = run(target, Random(1), 400)
    assert taken >= len(target.samples)


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_every_sample_is_valid(target: Target) -> None:
    for sample in target.samples:
        target.check(sample)
    assert target.samples


def test_the_fuzzer_detects_violations() -> None:
    def crash(data: bytes) -> None:
        if len(data) != 4:
            raise IndexError(len(data))

    def refuse(data: bytes) -> None:
        raise Invalid("no")

    def waste(data: bytes) -> None:
        assert len(bytearray(64 << 20)) > len(data)

    with pytest.raises(IndexError) as caught:
        run(Target("crash", crash, (b"abcd",)), Random(1), 100)
    assert "target crash, input" in caught.value.__notes__[0]
    with pytest.raises(AssertionError, match="waste"):
        run(Target("waste", waste, (b"abcd",)), Random(1), 100)
    assert run(Target("refuse", refuse, (b"abcd",)), Random(1), 100) == 0


def test_mutations_differ_and_are_reproducible() -> None:
    first = [mutate(b"sample" * 10, Random(n)) for n in range(50)]
    assert len(set(first)) > 40
    assert first == [mutate(b"sample" * 10, Random(n)) for n in range(50)]
