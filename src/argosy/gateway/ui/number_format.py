"""Formats sizes, counts and times for pages."""

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
VERSION_CHARACTERS = 10  # of a commit hash: unique within a repository in practice


def size_text(size_bytes: float) -> str:
    """Three digits and a unit: 999 B, 1.2 KiB, 34.5 MiB, 678 GiB."""
    value, unit = float(size_bytes), _SIZES[0]
    for bigger in _SIZES[1:]:
        if value < 999.5:
            break
        value, unit = value / 1024, bigger
    digits = 0 if unit == _SIZES[0] or value >= 99.95 else 1
    return f"{value:.{digits}f} {unit}"


def count_text(count: int, noun: str = "", plural: str = "") -> str:
    """1,234 files, 1 file."""
    number = f"{count:,}"
    if not noun:
        return number
    return f"{number} {noun if count == 1 else plural or noun + 's'}"


def duration_text(seconds: float) -> str:
    """0.4 ms, 12 ms, 1.3 s, 4 min, 3 h, 2 d."""
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    if seconds >= 0.9995:
        return f"{seconds:.{0 if seconds >= 9.95 else 1}f} s"
    return f"{seconds * 1000:.{0 if seconds >= 0.00995 else 1}f} ms"


def age_text(then_s: float, now_s: float) -> str:
    """How long ago. An unknown time is a dash; clock skew never shows a time in the future."""
    if then_s <= 0:
        return "–"
    age_s = max(0.0, now_s - then_s)
    return "just now" if age_s < 5 else f"{duration_text(age_s)} ago"


def version_text(version: str) -> str:
    return version[:VERSION_CHARACTERS]
