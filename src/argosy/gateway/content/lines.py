"""Lines out of a stream that comes in pieces: blank ones are skipped, and none is longer than a record may be."""

LINE_BYTES_MAX = 256 * 1024  # a record with all its addresses has a few kilobytes at most


class Lines:
    """`feed` what arrives, and `end` when no more does; `overlong` counts the lines that were dropped."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self.overlong = 0
        self._bytes_max = bytes_max
        self._tail = b""
        self._is_dropping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now."""
        *whole, self._tail = (self._tail + data).split(b"\n")
        if whole and self._is_dropping:
            whole, self._is_dropping = whole[1:], False
        if len(self._tail) > self._bytes_max:
            if not self._is_dropping:
                self.overlong += 1
            self._tail, self._is_dropping = b"", True
        return self._good(whole)

    def end(self) -> list[bytes]:
        """The last line, if nothing ended it."""
        tail, self._tail = self._tail, b""
        return [] if self._is_dropping else self._good([tail])

    def _good(self, lines: list[bytes]) -> list[bytes]:
        good = [line for line in lines if len(line) <= self._bytes_max and line.strip()]
        self.overlong += sum(len(line) > self._bytes_max for line in lines)
        return good
