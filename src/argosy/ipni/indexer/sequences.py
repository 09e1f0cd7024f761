"""Signed peer records are taken in order, and none that is old: a captured one cannot be played again."""

from argosy.base.errors import Invalid

AGE_S_MAX = 48 * 3600.0


def check_sequence(sequence: int, *, last: int, wall: float) -> None:
    """A sequence is a time in nanoseconds since 1970."""
    age_s = abs(wall - sequence / 1e9)
    if age_s > AGE_S_MAX:
        raise Invalid(f"the record is {age_s:.0f} s from now: its sequence must be a time within {AGE_S_MAX:.0f} s")
    if sequence <= last:
        raise Invalid(f"the record's sequence {sequence} is not newer than {last}, which was taken before")
