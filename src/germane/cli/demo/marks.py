"""The signs and lines of the demo: drawn on a terminal, spelt out in plain text."""

from dataclasses import dataclass

from rich import box


@dataclass(frozen=True)
class Marks:
    message: str
    update: str
    subscribe: str
    unsubscribe: str
    delivered: str
    missed: str
    dot: str
    line: str
    box: box.Box


_ASCII = box.Box(
    "    \n    \n -- \n    \n    \n    \n    \n    \n",
    ascii=True,
)

DRAWN = Marks("✉", "↻", "+", "-", "→", "✗", " · ", "─", box.SIMPLE_HEAD)
PLAIN = Marks("*", "~", "+", "-", "->", "x", ", ", "-", _ASCII)
