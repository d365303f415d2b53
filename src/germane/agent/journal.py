"""What can be undone: actions, of steps that say what was changed and how it was before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from germane.agent.plain import as_plain

__all__ = ["Journal", "Step"]

MOST_ACTIONS = 100
MOST_STEPS = 1_000  # that these consist of

Step = tuple[str, list[Any]]  # what was changed, and how it was before, as plain rows


class Journal:
    """The latest actions, the last one last."""

    def __init__(self, rows: Sequence[Sequence[Any]] = ()) -> None:
        self._actions: list[list[Step]] = [_action(row) for row in rows]
        self._open: list[Step] | None = None  # what the action under way did so far

    @contextmanager
    def one_action(self) -> Iterator[None]:
        """What is noted within is one action; within another one, part of that."""
        if self._open is not None:
            yield
            return
        steps: list[Step] = []
        self._open = steps
        try:
            yield
        finally:
            self._open = None
            if steps:
                self._actions.append(steps)
                self._shorten()

    def note(self, what: str, before: Sequence[Any]) -> None:
        """A step, and how it was before."""
        with self.one_action():
            assert self._open is not None
            self._open.append((what, as_plain(before)))

    def __iter__(self) -> Iterator[Step]:
        """All steps."""
        return (step for action in self._actions for step in action)

    def pop(self) -> list[Step]:
        """The steps of the last action, the last one first; it is not kept any more."""
        return self._actions.pop()[::-1] if self._actions else []

    def rows(self) -> list[Any]:
        """Everything, as plain JSON, for the constructor."""
        plain: list[Any] = as_plain(self._actions)
        return plain

    def _shorten(self) -> None:
        """Keep so many actions, and steps of them; the last action whole."""
        del self._actions[:-MOST_ACTIONS]
        steps = 0
        for n, action in enumerate(reversed(self._actions)):
            steps += len(action)
            if steps > MOST_STEPS and n:
                del self._actions[:-n]
                break


def _action(row: Sequence[Any]) -> list[Step]:
    if row and isinstance(row[0], str):  # as it was when an action was one step, a choice one cell
        name, before = row
        if name != "feedback":
            before = [before[0], [] if before[1] is None else [before[1]]]
        return [(name, list(before))]
    return [(str(name), list(before)) for name, before in row]
