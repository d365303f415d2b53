"""Topics that a person chose, to have or not to have, and in which parts of a context."""

from collections.abc import Iterable, Sequence
from typing import Any

from germane.agent.pieces import Cell, cell_in
from germane.agent.plain import as_plain
from germane.model import InvalidValue

__all__ = ["Choices"]

MOST = 200


class Choices:
    """Topic -> the cells it was chosen for; the empty one is everywhere."""

    def __init__(self, name: str, rows: Iterable[Sequence[Any]] = ()) -> None:
        self.name = name  # of the action that makes one
        self._cells: dict[str, list[Cell]] = {}
        for topic, cell in rows:
            self._cells.setdefault(str(topic), []).append(cell_in(cell))

    def of(self, topic: str) -> list[Cell]:
        """Where a topic was chosen; none if it was not."""
        return self._cells.get(topic, [])

    def add(self, topic: str, cell: Cell) -> bool:
        """Choose a topic; whether that is new."""
        before = self.of(topic)
        if cell in before or () in before:
            return False
        if sum(map(len, self._cells.values())) >= MOST:
            raise InvalidValue(
                f"{self.name}({topic!r:.100}): {MOST} are the most; release() one first"
            )
        self._cells[topic] = [*before, cell] if cell else [cell]  # everywhere covers all
        return True

    def put(self, topic: str, cells: Sequence[Any]) -> None:
        """Choose a topic for these cells and no others; for none, not at all."""
        self._cells.pop(topic, None)
        if cells:
            self._cells[topic] = [cell_in(cell) for cell in cells]

    def held(self, cells: Iterable[Cell]) -> dict[str, Cell]:
        """Topics that hold in a context, given its cells, with the first of theirs that does."""
        holding = {pair for cell in cells for pair in cell}
        found = {
            topic: next((cell for cell in chosen if holding.issuperset(cell)), None)
            for topic, chosen in self._cells.items()
        }
        return {topic: cell for topic, cell in found.items() if cell is not None}

    def rows(self) -> list[Any]:
        """A row for each topic and cell, as plain JSON, for the constructor."""
        return [[topic, as_plain(cell)] for topic, cells in self._cells.items() for cell in cells]
