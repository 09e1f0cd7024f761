"""The style sheet: every text is readable on its background, in light and in dark (WCAG AA)."""

import re

import pytest

from argosy.gateway.ui.http import FOLDER

SHEET = (FOLDER / "argosy.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part)) for part in SHEET.split("@media", 2)[:2])
CODE = [name for name in LIGHT if name.startswith("code-")]
PAIRS = [
    *(("text", ground) for ground in ("ground", "surface", "raised", "mark", "chosen", "warming-ground")),
    *(("muted", ground) for ground in ("ground", "surface", "raised")),
    *(("accent", ground) for ground in ("ground", "surface")),
    ("on-accent", "accent"),
    *((state, f"{state}-ground") for state in ("ready", "warming", "draining", "unowned", "failed")),
    *((name, ground) for name in CODE for ground in ("surface", "chosen")),
    ("failed", "surface"),
]
CONTRAST_MIN = 4.5


def brightness(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    darker, brighter = sorted([brightness(one), brightness(two)])
    return (brighter + 0.05) / (darker + 0.05)


def test_light_and_dark_name_the_same_colours() -> None:
    assert set(LIGHT) == set(DARK)
    assert len(CODE) == 10


@pytest.mark.parametrize(("text", "ground"), PAIRS)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(colours: dict[str, str], text: str, ground: str) -> None:
    assert contrast(colours[text], colours[ground]) >= CONTRAST_MIN


def test_code_inside_a_mark_has_the_colour_of_text() -> None:
    assert "mark, mark [class] { color: var(--text); }" in SHEET


def test_nothing_is_loaded_from_elsewhere() -> None:
    for name in ("argosy.css", "argosy.js"):
        assert not re.search(r"https?://|@import|url\(", (FOLDER / name).read_text())
