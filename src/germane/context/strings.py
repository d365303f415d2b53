"""An ordered dictionary of strings: each known string has a number that sorts as it does.

In: strings of conditions and contexts (*members*), and of messages (looked up, never kept).
Out: float64 labels, so that every comparison of strings is a comparison of numbers.

Invariant: members have even integer labels in (-2**52, 2**52), in code-point order, at least 2
apart. A string that is no member gets its lower neighbour's label plus one: an odd number that
equals no member and compares with all of them as the string does. (Two non-members may share a
label: message strings are compared with each other as strings, not as labels.)

A new member takes a number between its neighbours; when there is none left, all members are
numbered anew and ``epoch`` grows: holders of labels translate them with ``moved``, then call
``settle``. Cost: O(log n)
to look up, O(n) words moved to add one, O(n + k log k) to add k.
"""

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

SPAN = 2**52
STRIDE = 2**24


class Strings:
    """Members and their labels."""

    def __init__(self, members: Iterable[str] = ()) -> None:
        self.epoch = 0
        self._label: dict[str, int] = {}
        self._sorted: list[str] = []
        self._settled: dict[str, int] | None = None  # labels that holders still have
        self.add_many(members)

    def __len__(self) -> int:
        return len(self._sorted)

    def __contains__(self, text: str) -> bool:
        return text in self._label

    @property
    def version(self) -> tuple[int, int]:
        """Changes with every label, also with those of strings that are no members."""
        return self.epoch, len(self._sorted)

    def label(self, text: str) -> float:
        """The label of a string, known or not; adds nothing."""
        known = self._label.get(text)
        if known is not None:
            return float(known)
        at = bisect_left(self._sorted, text)
        return float(self._label[self._sorted[at - 1]] + 1) if at else float(1 - SPAN)

    def add(self, text: str) -> float:
        """Make a string a member; its label."""
        known = self._label.get(text)
        if known is not None:
            return float(known)
        at = bisect_left(self._sorted, text)
        low = self._label[self._sorted[at - 1]] if at else -SPAN
        high = self._label[self._sorted[at]] if at < len(self._sorted) else SPAN
        if low == -SPAN and high == SPAN:
            label = 0
        elif low == -SPAN:
            label = high - min(STRIDE, (high - low) // 2)
        else:
            label = low + min(STRIDE, (high - low) // 2)
        label -= label % 2
        self._sorted.insert(at, text)
        if not low + 2 <= label <= high - 2:
            self._number_anew()
            return float(self._label[text])
        self._label[text] = label
        return float(label)

    def add_many(self, texts: Iterable[str]) -> None:
        """Make many strings members; numbers all anew when they are many."""
        new = {text for text in texts if text not in self._label}
        if len(new) * 4 <= len(self._sorted) and len(new) <= 1000:
            for text in sorted(new):
                self.add(text)
            return
        self._sorted = sorted([*self._sorted, *new])
        self._number_anew()

    def text(self, label: float) -> str:
        """The member with a label."""
        low, high = 0, len(self._sorted)
        while low < high:
            middle = (low + high) // 2
            if self._label[self._sorted[middle]] < label:
                low = middle + 1
            else:
                high = middle
        if low == len(self._sorted) or self._label[self._sorted[low]] != label:
            raise KeyError(label)
        return self._sorted[low]

    def moved(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Labels as they were at the last ``settle``, as they are now; NaN and others stay."""
        old = sorted(self._settled or (), key=lambda text: (self._settled or {})[text])
        before = np.array([(self._settled or {})[text] for text in old], np.float64)
        after = np.array([self._label[text] for text in old], np.float64)
        at = np.searchsorted(before, labels)
        known = at < len(before)
        known[known] = before[at[known]] == labels[known]
        result = labels.copy()
        result[known] = after[at[known]]
        return result

    def settle(self) -> None:
        """All holders of labels have translated them."""
        self._settled = None

    def _number_anew(self) -> None:
        if self._settled is None:
            self._settled = self._label
        step = (2 * SPAN) // (len(self._sorted) + 1)
        step -= step % 2
        self._label = {text: step * (i + 1) - SPAN for i, text in enumerate(self._sorted)}
        self.epoch += 1

    def members(self) -> list[str]:
        """All members, in order."""
        return list(self._sorted)

    def state(self) -> dict[str, object]:
        """Plain data for saving."""
        return {"members": self._sorted, "labels": [self._label[text] for text in self._sorted]}

    @classmethod
    def from_state(cls, state: dict[str, list[object]]) -> "Strings":
        """Restore what ``state`` gave."""
        strings = cls()
        strings._sorted = [str(text) for text in state["members"]]
        strings._label = dict(
            zip(strings._sorted, (int(str(label)) for label in state["labels"]), strict=True)
        )
        return strings

    def _check(self) -> None:
        assert self._sorted == sorted(set(self._sorted))
        labels = [self._label[text] for text in self._sorted]
        assert all(label % 2 == 0 and -SPAN < label < SPAN for label in labels)
        assert all(b - a >= 2 for a, b in zip(labels, labels[1:], strict=False))
