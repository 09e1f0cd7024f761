"""A small tree with words of every frequency, for the search bench."""

from pathlib import Path

FILES = 60


def write_tree(folder: Path) -> Path:
    """`return` is in all files, `ledger_entry` in one of ten, `anchor_<n>` in one; and two that are no text."""
    for number in range(FILES):
        lines = [
            f"def anchor_{number:03}(vessel):",
            f"    # harbour {number}, berth {number % 7}",
            "    ledger_entry(vessel)" if number % 10 == 0 else "    sailing(vessel)",
            "    return vessel.manifest(cargo=None)",
        ]
        path = folder / f"port_{number % 3}" / f"quay_{number:03}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\0\0return")
    (folder / "port_0" / "with blank.txt").write_text("return to the quay\n")
    return folder
