"""Trigram keys: one number for both cases, and the same for every release, because postings are made of them."""

import string

import pytest

from argosy.search.arrays import OVERLAP_BYTES
from argosy.search.kernels.trigrams import CLASSES, KEYS, LINE_END, key_of, keys_of


def test_a_class_has_six_bits_and_every_class_is_used() -> None:
    assert set(CLASSES.tolist()) == set(range(64))


def test_letters_of_both_cases_share_a_class_and_no_two_letters_do() -> None:
    lower = [int(CLASSES[ord(letter)]) for letter in string.ascii_lowercase]
    assert lower == [int(CLASSES[ord(letter)]) for letter in string.ascii_uppercase]
    assert len(set(lower)) == 26


def test_identifier_characters_have_their_own_classes() -> None:
    alone = string.ascii_lowercase + string.digits + "_ \t"
    assert len({int(CLASSES[ord(letter)]) for letter in alone}) == len(alone)
    printable = [int(CLASSES[ord(letter)]) for letter in string.punctuation]
    assert not set(printable) & {int(CLASSES[ord(letter)]) for letter in alone if letter != "_"}


@pytest.mark.parametrize("byte", [0, 10, 13])
def test_lines_and_documents_end_alike(byte: int) -> None:
    assert CLASSES[byte] == LINE_END


def test_the_keys_of_a_literal_are_those_of_its_trigrams_each_once_ascending() -> None:
    assert keys_of(b"abcabc").tolist() == sorted(key_of(*b"abc"[i:] + b"abc"[:i]) for i in range(3))
    assert keys_of(b"Printf").tolist() == keys_of(b"pRINTF").tolist()


@pytest.mark.parametrize("literal", [b"", b"a", b"ab"])
def test_a_literal_without_a_trigram_has_no_keys(literal: bytes) -> None:
    assert keys_of(literal).tolist() == []


def test_only_the_beginning_of_a_long_literal_counts() -> None:
    beginning = bytes(range(OVERLAP_BYTES))
    assert keys_of(beginning + b"never asked for").tolist() == keys_of(beginning).tolist()


def test_keys_are_pinned() -> None:
    assert key_of(*b"the") == 22 << 12 | 10 << 6 | 7
    assert key_of(*b"\n\n\n") == 0
    assert key_of(*b"$^?") == 63 << 12 | 61 << 6 | 62
    assert key_of(*"ß?".encode()) == 30 << 12 | 10 << 6 | 62
    assert max(key_of(*b"$$$"), key_of(*b"!!!")) < KEYS
