"""germane as a contestant: filters made from the workloads through the public face only."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import germane

from .streams import Points
from .workloads import ATTRIBUTES, Contextual, Ranges, Step, Update

BATCH_ROWS = 100_000


def policy_of(policy: Any) -> Any:
    """A policy as a parameter file writes it: a word, or FP as a number."""
    return policy if isinstance(policy, str) else germane.Fixed(int(policy))


def options(index: str, policy: Any = None, structure: str | None = None) -> dict[str, Any]:
    chosen: dict[str, Any] = {"index": index}
    if policy is not None:
        chosen["policy"] = policy_of(policy)
    if structure is not None:
        chosen["structure"] = structure
    return chosen


def static_filter(work: Ranges | Points, **chosen: Any) -> Any:
    """A filter with the profiles of RQ or PQ; a profile's id is its row."""
    f = germane.Filter(**chosen)
    for start in range(0, work.n_profiles, BATCH_ROWS):
        stop = min(start + BATCH_ROWS, work.n_profiles)
        ids = np.arange(start, stop, dtype=np.int64)
        f.subscribe_many(ids, work.conditions(start, stop))
    return f


def contextual_filter(work: Contextual, **chosen: Any) -> Any:
    """A filter with the profiles and the first context values of Table 2."""
    f = germane.Filter(**chosen)
    ids = work.ids
    texts = work.conditions()
    for a, attribute in enumerate(ATTRIBUTES):
        f.update_many(ids, attribute, work.centres[a])
    for start in range(0, work.n_profiles, BATCH_ROWS):
        rows = slice(start, start + BATCH_ROWS)
        f.subscribe_many(ids[rows], texts[rows], contexts=ids[rows])
    return f


def arrange(f: Any, messages: np.ndarray, names: Sequence[str] = ATTRIBUTES) -> np.ndarray:
    """Message vectors in the order of `f.attributes`, which is the order of first use."""
    columns = [names.index(name) for name in f.attributes]
    return np.ascontiguousarray(messages[..., columns])


class Stable:
    """Fresh copies of the same filter: built once, saved, loaded as often as asked."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="germane-bench-")
        self._saved: dict[str, Path] = {}
        self.build_s: dict[str, float] = {}

    def fresh(self, key: str, build: Callable[[], Any]) -> Any:
        """The filter named `key` as it was when it was built."""
        if key not in self._saved:
            start = time.perf_counter()
            f = build()
            self.build_s[key] = time.perf_counter() - start
            path = Path(self._folder.name) / f"{len(self._saved)}.germane"
            f.save(path)
            self._saved[key] = path
        return germane.Filter.load(self._saved[key])

    def close(self) -> None:
        self._folder.cleanup()


def rehearse(work: Contextual, **chosen: Any) -> None:
    """Compile (or load from the cache) what a run will need, on a throw-away filter."""
    from .workloads import Events, table2

    small = table2(2_000, seed=work.seed)
    f = contextual_filter(small, **chosen)
    play(f, prepared(f, Events(small, [(0, 2_000)], seed=work.seed).take(30)))


def prepared(f: Any, steps: list[Step]) -> list[tuple[list[Update], np.ndarray]]:
    """Steps with their messages as vectors of this filter."""
    vectors = arrange(f, np.stack([message for _, message in steps]))
    return [(updates, vectors[i]) for i, (updates, _) in enumerate(steps)]


def play(f: Any, steps: list[tuple[list[Update], np.ndarray]]) -> tuple[float, list[np.ndarray]]:
    """Feed the steps to a filter; the seconds it took and the answers."""
    update, match = f.update_many, f.match_rows
    answers = []
    start = time.perf_counter()
    for updates, vector in steps:
        for attribute, contexts, values in updates:
            update(contexts, attribute, values)
        answers.append(match(vector))
    return time.perf_counter() - start, answers
