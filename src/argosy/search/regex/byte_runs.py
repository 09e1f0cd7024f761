"""Derives runs of byte sets that every match contains, such as `[0-9]{4}-[0-9]{2}`.

A run extends while every alternative of a part has the same number of bytes, so that each byte has a fixed position. It
breaks where the length of a character in UTF-8 or the number of characters varies.
"""

from argosy.search.regex.charsets import ByteSets, CharSet, charset, utf8, variants
from argosy.search.regex.tree import Assertion, Chars, Choice, Class, Node, Repeat, Sequence

RUN_BYTES_MIN = 3  # shorter ones have no trigram
RUN_BYTES_MAX = 64  # the scan has one bit per position; a longer run is split
RUNS_MAX = 8  # of a whole pattern, the most selective
_FIXED_BYTES_MAX = 4 * RUN_BYTES_MAX  # longer parts of fixed length are not expanded


def byte_runs(node: Node, *, is_case_sensitive: bool) -> tuple[ByteSets, ...]:
    """The most selective runs, without those that are plain text, which are among the literals already."""
    writer = _Writer(is_case_sensitive)
    writer.visit(node)
    writer.cut()
    # A dictionary removes duplicates and preserves the order, so that equal patterns have equal runs.
    runs = dict.fromkeys(run for run in writer.runs if not _is_text(run))
    return tuple(sorted(runs, key=_commonness)[:RUNS_MAX])


class _Writer:
    def __init__(self, is_case_sensitive: bool) -> None:
        self.is_case_sensitive = is_case_sensitive
        self.runs: list[ByteSets] = []
        self.current: list[frozenset[int]] = []

    def cut(self) -> None:
        if len(self.current) >= RUN_BYTES_MIN:
            self.runs.append(tuple(self.current))
        self.current = []

    def visit(self, node: Node) -> None:
        match node:
            case Chars(chars):
                for char in chars:
                    self._take(self._char(char, node))
            case Sequence(children):
                for child in children:
                    self.visit(child)
            case Repeat(child, least, most):
                self._visit_repeat(child, least, most)
            case _:
                self._take(self._fixed_bytes(node))

    def _visit_repeat(self, child: Node, least: int, most: int | None) -> None:
        if most == 0:
            return
        # What precedes an optional part and what follows it need not be adjacent.
        if least == 0:
            self.cut()
        elif (sets := self._fixed_bytes(child)) is None:
            # A child without a fixed length breaks the run inside: what precedes the break is in the first copy, what
            # follows it in the last.
            self.visit(child)
        else:
            copies = self._copies(sets, least)
            self._take(copies)
            if most != least or len(copies) < len(sets) * least:
                self.cut()
                self._take(copies)  # the last copies precede the next part

    def _take(self, sets: ByteSets | None) -> None:
        if sets is None:
            self.cut()
        for each in sets or ():
            if len(self.current) == RUN_BYTES_MAX:
                self.cut()
            self.current.append(each)

    def _copies(self, sets: ByteSets, least: int) -> ByteSets:
        return sets * min(least, max(1, _FIXED_BYTES_MAX // max(1, len(sets))))

    def _char(self, char: str, node: Chars) -> ByteSets | None:
        if not node.case.is_folded(is_case_sensitive=self.is_case_sensitive):
            return tuple(frozenset((byte,)) for byte in utf8(char))
        forms = [utf8(each) for each in variants(char)]
        # Variants of different lengths would shift every byte after them.
        if len({len(form) for form in forms}) > 1:
            return None
        return tuple(map(frozenset, zip(*forms, strict=True)))

    def _fixed_bytes(self, node: Node) -> ByteSets | None:
        """The bytes of the node, if all its matches have the same number of bytes."""
        match node:
            case Chars(chars):
                # One character more than is used, so that a text that is too long is recognized without expanding all
                # of it.
                return self._concat_fixed([self._char(char, node) for char in chars[: _FIXED_BYTES_MAX + 1]])
            case Class():
                return self._charset(node).byte_sets()
            case Assertion():
                return ()
            case Sequence(children):
                return self._concat_fixed([self._fixed_bytes(child) for child in children])
            case Choice(children):
                return _unite_fixed([self._fixed_bytes(child) for child in children])
            case Repeat(child, least, most) if least == most:
                sets = self._fixed_bytes(child)
                return self._concat_fixed([sets] * min(least, _FIXED_BYTES_MAX + 1)) if sets else sets
            case _:
                return None

    def _charset(self, node: Class) -> CharSet:
        return charset(node, is_folded=node.case.is_folded(is_case_sensitive=self.is_case_sensitive))

    def _concat_fixed(self, parts: list[ByteSets | None]) -> ByteSets | None:
        row: list[frozenset[int]] = []
        for part in parts:
            if part is None or len(row) + len(part) > _FIXED_BYTES_MAX:
                return None
            row += part
        return tuple(row)


def _unite_fixed(parts: list[ByteSets | None]) -> ByteSets | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({len(part) for part in known}) != 1:
        return None
    return tuple(frozenset().union(*column) for column in zip(*known, strict=True))


def _is_text(run: ByteSets) -> bool:
    return all(len(members) == 1 or _is_letter(members) for members in run)


def _is_letter(members: frozenset[int]) -> bool:
    """Both cases of one ASCII letter."""
    return len(members) == 2 and len(bytes(members).lower()) == 2 and len(set(bytes(members).lower())) == 1


def _commonness(run: ByteSets) -> float:
    share = 1.0
    for members in run:
        share *= len(members) / 256
    return share
