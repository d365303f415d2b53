"""All patterns of a filter, and the documents that they match.

In: patterns of the language with their prices and thresholds; documents. Out: which patterns each
document matches, and the cost. A pattern is defined once, however many conditions have it, and is
looked for while somebody holds it. Kernels: ``kernels.patterns``.

Invariants: a leaf lists exactly the patterns that are held and have it, once for each such vertex;
what a definition holds stays until ``sweep``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.approx import embedding
from germane.approx.dags import Dag, Tree
from germane.approx.documents import Arrays
from germane.approx.embedding import Vertex
from germane.approx.scratch import Scratch, Sizes, most_hits
from germane.approx.transformations import Prices
from germane.index.conjunctions import longer
from germane.kernels import patterns as kernels
from germane.kernels.patterns import ALL, EITHER, NONE
from germane.language.patterns import Either, PatternNode, Structure, Value
from germane.model import InvalidValue

__all__ = ["Found", "Patterns"]

FORMS = ("savings", "time", "space")
MAX_GAP = 10_000_000
FEW = 10_000
"""So many definitions that nobody holds are no reason to sweep."""
Words = tuple[str, ...]


class Found(NamedTuple):
    """Of the i-th document, the patterns and costs from ``ends[i - 1]`` to ``ends[i]``."""

    ends: NDArray[np.int64]
    patterns: NDArray[np.int32]
    costs: NDArray[np.float64]
    n_candidates: int


class _Pool:
    """An array that grows at its end."""

    def __init__(self, dtype: Any, fill: Any = 0) -> None:
        self.array: NDArray[Any] = np.full(16, fill, dtype) if fill else np.zeros(16, dtype)
        self.used = 0
        self._fill = fill

    def reserve(self, n: int) -> NDArray[Any]:
        """Room for n more."""
        if self.used + n > len(self.array):
            self.array = longer(
                self.array, max(self.used + n, len(self.array) * 5 // 4), self._fill
            )
        return self.array

    def add(self, *items: Any) -> int:
        """Append items; the place of the first."""
        first = self.used
        array = self.reserve(len(items))
        for item in items:
            array[self.used] = item
            self.used += 1
        return first


class Patterns:
    """The patterns that conditions hold.

    ``form`` is "savings", or one of the paper's match DAGs, "time" or "space".
    """

    def __init__(self, form: str = "savings") -> None:
        if form not in FORMS:
            raise InvalidValue(f"form is one of {', '.join(FORMS)}, not {form!r:.200}")
        self.form = form
        self.dag = None if form == "savings" else Dag(self, expands=form == "time")
        self.version = 0  # grows with what is looked for
        self.sweeps = 0
        self.n_candidates = 0
        self.n_documents = 0
        self.n_matches = 0
        self._clear()

    def _clear(self) -> None:
        self.labels: dict[str, int] = {}
        self.words: dict[str, int] = {}
        self._phrases: dict[Words, int] = {}
        self._terms: dict[tuple[Any, ...], int] = {}
        self._skeletons: dict[tuple[int, ...], int] = {}
        self._insertions: dict[Any, int] = {}
        self._numbers: dict[bytes, int] = {}
        self._free: list[int] = []
        self._pattern = _Pool(kernels.PATTERN)
        self._holders = _Pool(np.int32)
        self._vertex = _Pool(kernels.VERTEX)
        self._term = _Pool(kernels.TERM)
        self._alternative = _Pool(kernels.ALTERNATIVE)
        self._phrase = _Pool(kernels.PHRASE)
        self._phrase_word = _Pool(np.int32)
        self._first_phrase = _Pool(np.int32, NONE)
        self._n_phrases = _Pool(np.int32)  # by first word
        self._first_of_label = _Pool(np.int32, NONE)  # alternative
        self._leaves: dict[int, int] = {}  # by value term and numbers of structures
        self._leaf = _Pool(kernels.LEAF)
        self._n_structures = 0
        self._slack = 0.0
        self._skeleton_at = _Pool(np.int64)
        self._skeleton_at.add(0)
        self._skeleton = _Pool(np.int32)
        self._insert_at = _Pool(np.int64)
        self._insert_at.add(0)
        self._insert = _Pool(np.int32)
        self._insert_cost = _Pool(np.float64)
        self._usual = _Pool(np.float64)
        self._list_at = _Pool(np.int64)
        self._list_count = _Pool(np.int32)
        self._list_room = _Pool(np.int32)
        self._list = _Pool(np.int32)
        self._weight = _Pool(np.float32)
        self._always = _Pool(np.int32)
        self._scratch = Scratch()
        self._needs = -1  # the version that the scratch has noted
        self.n_held = 0
        self._most_vertices = 1

    def __len__(self) -> int:
        return self.n_held

    @property
    def capacity(self) -> int:
        """All numbers are below."""
        return self._pattern.used

    # definitions -----------------------------------------------------------------------------

    def define(self, pattern: Structure, threshold: float, prices: Prices) -> int:
        """The number of a pattern, new or known."""
        vertices: list[tuple[int, int]] = []
        self._flatten(pattern, prices, vertices)
        array = np.array(vertices, kernels.VERTEX)
        insertions = self._insertion_table(prices)
        key = array.tobytes() + np.array([threshold, insertions]).tobytes()
        number = self._numbers.get(key)
        if number is not None:
            return number
        self._be_careful(threshold)
        at = self._vertex.used
        self._vertex.reserve(len(array))[at : at + len(array)] = array
        self._vertex.used += len(array)
        self._most_vertices = max(self._most_vertices, len(array))
        root = vertices[-1][0]
        skeleton = (root, *sorted(self._structures(pattern.parts, prices)))
        item = (
            at, len(array), self._skeleton_of(skeleton), insertions, threshold,
            self._without_values(pattern.parts, prices, threshold),
        )  # fmt: skip
        if self._free:
            number = self._free.pop()
            self._pattern.array[number] = item
        else:
            number = self._pattern.add(item)
            self._holders.add(0)
        self._numbers[key] = number
        return number

    def numbers(self) -> list[int]:
        """Of all that is defined, ascending."""
        return sorted(self._numbers.values())

    def is_held(self, number: int) -> bool:
        """Whether somebody holds a pattern."""
        return bool(self._holders.array[number])

    def defined(self, numbers: Iterable[int]) -> bool:
        """Whether all of these are."""
        n = self._pattern.used
        return all(0 <= number < n and self._pattern.array[number]["n"] for number in numbers)

    def skip_to(self, number: int) -> None:
        """Let a number be the next; those before it that are not defined stay free."""
        if not self._pattern.used <= number < self._pattern.used + MAX_GAP:
            raise InvalidValue("saved patterns are not in order")
        self._free = []
        while self._pattern.used < number:
            self._pattern.add(np.zeros((), kernels.PATTERN))
            self._holders.add(0)

    def has_values(self, number: int) -> bool:
        """Whether a pattern asks for words at all."""
        return bool(self._values_of(number))

    def matches_without_values(self, number: int) -> bool:
        """Whether a pattern matches every document with its structures, whatever the words."""
        pattern = self._pattern.array[number]
        return bool(pattern["base"] < pattern["threshold"])

    def vertex(self, number: int) -> Vertex:
        """A pattern as a tree again, with its prices."""
        pattern = self._pattern.array[number]
        at, n = int(pattern["at"]), int(pattern["n"])
        labels, phrases = list(self.labels), list(self._phrases)
        made: list[Vertex] = []
        below: list[list[Vertex]] = [[] for _ in range(n)]
        for place, (term, parent) in enumerate(self._vertex.array[at : at + n].tolist()):
            under = tuple(below[place])
            if term < 0:
                kind = embedding.EITHER if term == EITHER else embedding.ALL
                made.append(Vertex(kind, "", {}, {}, math.inf, under))
            else:
                first, n_whats, _, skip = self._term.array[term].tolist()
                listed = self._alternative.array[first : first + n_whats].tolist()
                if listed[0][1] == NONE:
                    named = {labels[what]: cost for what, *_, cost in listed}
                    name = next(iter(named))
                    made.append(Vertex(embedding.STRUCTURE, name, named, {}, skip, under))
                else:
                    said = {phrases[what]: cost for what, *_, cost in listed}
                    name = " ".join(next(iter(said)))
                    made.append(Vertex(embedding.VALUE, name, {}, said, skip, under))
            if parent >= 0:
                below[parent].append(made[-1])
        return made[-1]

    def insertions(self, number: int) -> tuple[dict[str, float], float]:
        """What it costs to pass over some elements, and others."""
        table = int(self._pattern.array[number]["insertions"])
        usual, listed = list(self._insertions)[table]
        return dict(listed), usual

    def tree(self, number: int) -> Tree:
        """A pattern as (term, children)."""
        at, n = (int(self._pattern.array[number][name]) for name in ("at", "n"))
        below: list[list[Tree]] = [[] for _ in range(n)]
        tree: Tree = (NONE, ())
        for place, (term, parent) in enumerate(self._vertex.array[at : at + n].tolist()):
            tree = term, tuple(below[place])
            if parent >= 0:
                below[parent].append(tree)
        return tree

    def skip(self, term: int) -> float:
        """The cost of doing without a term."""
        return float(self._term.array[term]["skip"])

    def threshold(self, number: int) -> float:
        """The costs of a pattern's matches are below."""
        return float(self._pattern.array[number]["threshold"])

    def _flatten(self, node: PatternNode, prices: Prices, out: list[tuple[int, int]]) -> list[int]:
        """Vertices in post-order; the places of those that are yet to get a parent."""
        below: list[int] = []
        if type(node) is Value:
            term = self._value_term(node.words, prices)
        elif type(node) is Structure:
            for part in node.parts:
                below += self._flatten(part, prices, out)
            term = self._structure_term(node.label, prices)
        else:
            assert type(node) is Either
            for parts in node.alternatives:
                places: list[int] = []
                for part in parts:
                    places += self._flatten(part, prices, out)
                below += places if len(parts) == 1 else self._append(ALL, places, out)
            term = EITHER
        return self._append(term, below, out)

    @staticmethod
    def _append(term: int, below: list[int], out: list[tuple[int, int]]) -> list[int]:
        number = len(out)
        for place in below:
            out[place] = (out[place][0], number)
        out.append((term, NONE))
        return [number]

    def _structures(self, parts: Iterable[PatternNode], prices: Prices) -> list[int]:
        """The structure terms that no alternative can avoid."""
        found = []
        for part in parts:
            if type(part) is Structure:
                found.append(self._structure_term(part.label, prices))
                found += self._structures(part.parts, prices)
        return found

    def _without_values(
        self, parts: Iterable[PatternNode], prices: Prices, threshold: float
    ) -> float:
        """The least cost of parts of which no value is there; each capped at the threshold."""
        total = 0.0
        for part in parts:
            if type(part) is Value:
                total += min(prices.skip_value(part.words), threshold)
            elif type(part) is Structure:
                total += self._without_values(part.parts, prices, threshold)
            else:
                assert type(part) is Either
                total += min(
                    self._without_values(parts, prices, threshold) for parts in part.alternatives
                )
        return total

    # terms -----------------------------------------------------------------------------------

    def _structure_term(self, label: str, prices: Prices) -> int:
        return self._term_of(label, prices.labels(label), prices.skip(label), self._label)

    def _value_term(self, words: Words, prices: Prices) -> int:
        return self._term_of(words, prices.phrases(words), prices.skip_value(words))

    def _term_of(
        self,
        source: Any,
        listed: dict[Any, float],
        skip: float,
        number_of: Callable[[Any], int] | None = None,
    ) -> int:
        """The term of a label or, without ``number_of``, of words; new or known."""
        others = sorted((name, cost) for name, cost in listed.items() if name != source)
        key = (source, skip, *others)
        term = self._terms.get(key)
        if term is None:
            number = number_of or self._phrase_of
            whats = [(number(name), cost) for name, cost in ((source, 0.0), *others)]
            term = self._terms[key] = self._add_term(whats, skip, values=number_of is None)
        return term

    def _add_term(self, whats: list[tuple[int, float]], skip: float, values: bool) -> int:
        """A term; what it is without a transformation comes first among its alternatives."""
        at = self._alternative.used
        term = self._term.add((at, len(whats), NONE if values else self._n_structures, skip))
        self._n_structures += not values
        self._be_careful(skip, *(cost for _, cost in whats))
        for what, cost in whats:
            if values:
                heads = self._phrase.array["alternative"]
            else:
                heads = self._first_of_label.array
            following = int(heads[what])
            heads[what] = self._alternative.used
            self._alternative.add((what, term if values else NONE, term, following, cost))
        return term

    def _be_careful(self, *prices: float) -> None:
        """Allow for rounding if sums of some prices may be rounded."""
        for price in prices:
            if price < math.inf and (price > 2**12 or not float(price * 2**10).is_integer()):
                self._slack = kernels.SLACK

    def _leaf_of(self, value: int, structures: list[int]) -> int:
        """A value somewhere below some structures, new or known."""
        some = structures[: kernels.CHAIN]
        some += [some[-1]] * (kernels.CHAIN - len(some))
        numbers = self._term.array["number"][some].tolist()
        key = value
        for number in numbers:
            key = key * (1 << 31) + number
        leaf = self._leaves.get(key)
        if leaf is None:
            leaf = self._leaf.add((numbers, int(self._term.array[value]["number"])))
            self._term.array[value]["number"] = leaf
            self._leaves[key] = leaf
            self._list_at.add(0)
            self._list_count.add(0)
            self._list_room.add(0)
        return leaf

    def _label(self, name: str) -> int:
        number = self.labels.get(name)
        if number is None:
            number = self.labels[name] = len(self.labels)
            self._first_of_label.add(NONE)
        return number

    def _word(self, word: str) -> int:
        number = self.words.get(word)
        if number is None:
            number = self.words[word] = len(self.words)
            self._first_phrase.add(NONE)
            self._n_phrases.add(0)
        return number

    def _phrase_of(self, words: Words) -> int:
        number = self._phrases.get(words)
        if number is None:
            numbers = [self._word(word) for word in words]
            at = self._phrase_word.add(*numbers)
            first = numbers[0]
            following = int(self._first_phrase.array[first])
            number = self._phrase.add((at, len(words), following, NONE))
            self._first_phrase.array[first] = number
            self._n_phrases.array[first] += 1
            self._phrases[words] = number
        return number

    def _skeleton_of(self, terms: tuple[int, ...]) -> int:
        number = self._skeletons.get(terms)
        if number is None:
            number = self._skeletons[terms] = len(self._skeletons)
            self._skeleton.add(*terms)
            self._skeleton_at.add(self._skeleton.used)
        return number

    def _insertion_table(self, prices: Prices) -> int:
        number = self._insertions.get(prices.insertions)
        if number is None:
            number = self._insertions[prices.insertions] = len(self._insertions)
            usual, listed = prices.insertions
            self._usual.add(usual)
            for name, cost in listed:
                self._insert.add(self._label(name))
                self._insert_cost.add(cost)
            self._insert_at.add(self._insert.used)
        return number

    # holding ---------------------------------------------------------------------------------

    def hold(self, numbers: Iterable[int]) -> None:
        """Somebody holds these from now on."""
        holders = self._holders.array
        for number in numbers:
            holders[number] += 1
            if holders[number] == 1:
                self._list_pattern(number)

    def release(self, numbers: Iterable[int]) -> None:
        """Somebody holds these no more."""
        holders = self._holders.array
        for number in numbers:
            holders[number] -= 1
            if not holders[number]:
                self._unlist_pattern(number)

    def _values_of(self, number: int) -> list[tuple[int, float]]:
        """Leaves and weights of a pattern's values."""
        at, n, _, _, threshold, _ = self._pattern.array[number].tolist()
        vertices = self._vertex.array[at : at + n].tolist()
        found = []
        for term, parent in vertices:
            if term < 0 or self._alternative.array[self._term.array[term]["at"]]["term"] == NONE:
                continue
            above = []  # structures that have to be somewhere; the root has
            while parent >= 0:
                structure = vertices[parent][0]
                if structure >= 0 and (parent == n - 1 or self.skip(structure) >= threshold):
                    above.append(structure)
                parent = vertices[parent][1]
            exact = min(self.skip(term), threshold)
            weight = np.float32(exact)
            if float(weight) < exact:  # a bound may be too low, never too high
                weight = np.nextafter(weight, np.float32(math.inf))
            found.append((self._leaf_of(term, above), float(weight)))
        return found

    def _list_pattern(self, number: int) -> None:
        self.version += 1
        self.n_held += 1
        if self.dag is not None:
            self.dag.add(number)
        if self.matches_without_values(number):
            self._always.add(number)
        for leaf, weight in self._values_of(number):
            n = int(self._list_count.array[leaf])
            at = int(self._list_at.array[leaf])
            if n == self._list_room.array[leaf]:
                room = max(1, 2 * n)
                new = self._list.used
                for pool in (self._list, self._weight):
                    pool.reserve(room)[new : new + n] = pool.array[at : at + n]
                    pool.used = new + room
                self._list_at.array[leaf] = at = new
                self._list_room.array[leaf] = room
            self._list.array[at + n] = number
            self._weight.array[at + n] = weight
            self._list_count.array[leaf] = n + 1

    def _unlist_pattern(self, number: int) -> None:
        self.version += 1
        self.n_held -= 1
        if self.dag is not None:
            self.dag.remove(number)
        if self.matches_without_values(number):
            always = self._always.array[: self._always.used]
            always[np.flatnonzero(always == number)[0]] = always[-1]
            self._always.used -= 1
        for leaf, weight in self._values_of(number):
            at, n = int(self._list_at.array[leaf]), int(self._list_count.array[leaf])
            mine = slice(at, at + n)
            same = (self._list.array[mine] == number) & (self._weight.array[mine] == weight)
            place = at + int(np.flatnonzero(same)[0])
            for pool in (self._list, self._weight):
                pool.array[place] = pool.array[at + n - 1]
            self._list_count.array[leaf] = n - 1

    @property
    def crowded(self) -> bool:
        """Whether most definitions are held by nobody."""
        return len(self._numbers) > FEW + 2 * self.n_held

    def sweep(self) -> None:
        """Forget definitions that nobody holds; numbers that are held stay."""
        used = self._pattern.used
        held = self._holders.array[:used] > 0
        kept: dict[bytes, int] = {}
        old = self._vertex.array
        self._vertex = _Pool(kernels.VERTEX)
        for key, number in self._numbers.items():
            if held[number]:
                kept[key] = number
                pattern = self._pattern.array[number]
                at, n = int(pattern["at"]), int(pattern["n"])
                first = self._vertex.used
                self._vertex.reserve(n)[first : first + n] = old[at : at + n]
                self._vertex.used += n
                self._pattern.array[number]["at"] = first
        self._numbers = kept
        self._free = np.flatnonzero(~held).tolist()
        self._pattern.array[:used]["n"][~held] = 0
        self.sweeps += 1

    # documents -------------------------------------------------------------------------------

    def match(self, documents: Arrays, wanted: NDArray[np.int64]) -> Found:
        """The patterns that some of the documents match, and the costs."""
        ends = np.zeros(len(wanted), np.int64)
        if not self.n_held or not len(wanted):
            return Found(ends, np.empty(0, np.int32), np.empty(0), 0)
        label = _translate(documents.labels, self.labels)[documents.label]
        word = _translate(documents.words, self.words)[documents.word]
        scratch = self._scratch
        sizes = self._sizes()
        scratch.fit(sizes, documents, most_hits(documents, word, self._n_phrases.array))
        if self._needs != self.version:
            self._needs = self.version
            scratch.needs(self._pattern.array[: sizes.patterns], self._slack)
        scratch.state[1:] = 0
        if self.dag is not None:
            return Found(*self.dag.match(documents, wanted, label, word, scratch), 0)
        done = 0
        while True:
            arguments = (
                wanted, done, documents.at, label, documents.parent, documents.word_at, word,
                *self.arrays(), *scratch.arrays(), scratch.out, scratch.costs, ends,
            )  # fmt: skip
            done = kernels.match_documents(*arguments)
            if done == len(wanted):
                break
            scratch.out = longer(scratch.out, 2 * len(scratch.out) + self._pattern.used)
            scratch.costs = longer(scratch.costs, len(scratch.out))
        n, n_candidates = int(scratch.state[1]), int(scratch.state[2])
        self.n_candidates += n_candidates
        self.n_documents += len(wanted)
        self.n_matches += n
        return Found(ends, scratch.out[:n].copy(), scratch.costs[:n].copy(), n_candidates)

    def _sizes(self) -> Sizes:
        return Sizes(
            len(self.labels),
            self._phrase.used,
            self._leaf.used,
            self._pattern.used,
            len(self._skeletons),
            self._n_structures,
            self._most_vertices,
        )

    def arrays(self) -> tuple[Any, ...]:
        """In the order of ``kernels.patterns.match_documents``."""
        return (
            self._pattern.array, self._vertex.array, self._term.array, self._alternative.array,
            self._first_phrase.array, self._phrase.array, self._phrase_word.array,
            self._first_of_label.array, self._leaf.array, self._n_structures,
            self._list_at.array, self._list_count.array, self._list.array, self._weight.array,
            self._always.array, self._always.used, self._slack, self._skeleton_at.array,
            self._skeleton.array,
            self._insert_at.array, self._insert.array, self._insert_cost.array, self._usual.array,
        )  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """What a person would want to know."""
        return {
            "form": self.form,
            "patterns": self.n_held,
            "defined": len(self._numbers),
            "always_looked_at": self._always.used,
            "words": len(self.words),
            "labels": len(self.labels),
            "documents": self.n_documents,
            "candidates": self.n_candidates,
            "matches": self.n_matches,
            "bytes": self.nbytes,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of arrays, and about those of dictionaries, as measured."""
        pools = [pool for pool in vars(self).values() if isinstance(pool, _Pool)]
        names = len(self.words) + len(self.labels) + len(self._phrases)
        about = 160 * len(self._numbers) + 120 * len(self._leaves)
        about += 300 * len(self._terms) + 120 * names
        return sum(pool.array.nbytes for pool in pools) + about

    def _check(self) -> None:
        held = np.flatnonzero(self._holders.array[: self._holders.used] > 0)
        assert len(held) == self.n_held
        wanted: dict[int, list[tuple[int, float]]] = {}
        for number in held.tolist():
            for leaf, weight in self._values_of(number):
                wanted.setdefault(leaf, []).append((number, weight))
        for leaf in range(self._leaf.used):
            at, n = int(self._list_at.array[leaf]), int(self._list_count.array[leaf])
            listed = zip(
                self._list.array[at : at + n].tolist(),
                self._weight.array[at : at + n].tolist(),
                strict=True,
            )
            assert sorted(listed) == sorted(wanted.get(leaf, []))
        always = self._always.array[: self._always.used].tolist()
        assert sorted(always) == [n for n in held.tolist() if self.matches_without_values(n)]


def _translate(names: list[str], known: dict[str, int]) -> NDArray[np.int32]:
    """The numbers of names; -1 for those that no pattern knows."""
    return np.array([known.get(name, NONE) for name in names], np.int32)
