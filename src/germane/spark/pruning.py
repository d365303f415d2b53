"""Which shards a message need not go to: placement by locality, and summaries of groups.

In: values of contexts and of messages, as arrays. Out: a shard and a group for every context, and
for every message the shards that it may concern. Contexts stand in Z-order of some attributes; a
shard is a stretch of that order, a group a stretch of a shard. Of each group two things are known:
an interval for every context attribute, and what its profiles ask of messages, as a function of
those intervals (``kernels.summaries``). So whoever routes needs to hear of an update only where it
leaves its group's interval, and can tell that by itself.

Invariant: intervals cover all values that contexts of a group have, or had since the group was last
tightened; hence no message is kept from a shard where it would be delivered. Cost: a message costs
one test a group. No Spark in here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.filter import Filter
from germane.filter.addresses import Alternatives, compile_address
from germane.kernels import points
from germane.kernels import summaries as kernels

BITS = 10
"""Of each attribute in the Z-order."""
FAR = 0.1
"""How far outside of its group a context must stand to leave it: a share of the group's extent."""
Column = NDArray[np.float64]


def z_order(columns: Sequence[Column], cuts: Sequence[Column]) -> NDArray[np.int64]:
    """The place of contexts in Z-order: bits of their ranks among cuts, interleaved; NULL first."""
    code = np.zeros(len(columns[0]), np.int64)
    for i, (column, cut) in enumerate(zip(columns, cuts, strict=True)):
        rank = np.searchsorted(cut, column, side="right")
        rank[np.isnan(column)] = 0
        for bit in range(BITS):
            code |= ((rank >> bit) & 1) << (bit * len(columns) + i)
    return code


class Placement(NamedTuple):
    """Where contexts live: by their place in Z-order of some attributes."""

    attributes: tuple[str, ...]
    cuts: tuple[Column, ...]  # of each attribute
    ends: NDArray[np.int64]  # the last place of each group but the last
    shards: NDArray[np.int32]  # by group

    @classmethod
    def of(
        cls, values: Mapping[str, Column], attributes: Sequence[str], n_shards: int, n_groups: int
    ) -> "Placement":
        """Shards of about equal size, each with so many groups, for contexts with these values."""
        columns = [np.asarray(values[name], np.float64) for name in attributes]
        shares = np.linspace(0, 1, 1 << BITS)[1:]
        cuts = tuple(_quantiles(column, shares) for column in columns)
        code = np.sort(z_order(columns, cuts))
        n = n_shards * n_groups
        ends = (
            code[np.arange(1, n) * len(code) // n] - 1 if len(code) else np.zeros(n - 1, np.int64)
        )
        shards = np.repeat(np.arange(n_shards, dtype=np.int32), n_groups)
        return cls(tuple(attributes), cuts, ends, shards)

    def groups(self, values: Mapping[str, Column]) -> NDArray[np.int64]:
        """The groups of contexts with some values."""
        columns = [np.asarray(values[name], np.float64) for name in self.attributes]
        return np.searchsorted(self.ends, z_order(columns, self.cuts), side="left")


def _quantiles(column: Column, shares: Column) -> Column:
    known = column[~np.isnan(column)]
    return np.quantile(known, shares) if len(known) else np.zeros(len(shares))


def strays(
    placement: Placement, f: Filter, groups: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Contexts of a shard, by row, whose move would narrow a summary; where everybody belongs now.

    They have left their group's stretch of the order, and stand outside of what those who have not
    left span, by ``FAR`` of it, in some attribute. ``groups`` are by row.
    """
    nobody = np.full(len(groups), np.nan)
    values = {}
    for name in placement.attributes:
        slots = f._contexts.slots.get(name, ())
        values[name] = f._contexts.values[slots[0], : len(groups)] if slots else nobody
    now = placement.groups(values)
    is_somewhere = np.any([~np.isnan(column) for column in values.values()], axis=0)
    has_left = is_somewhere & (now != groups)
    is_far = np.zeros(len(groups), np.bool_)
    n = int(groups.max(initial=-1)) + 1
    for column in values.values():
        stays = ~has_left & ~np.isnan(column)
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(low, groups[stays], column[stays])
        np.maximum.at(high, groups[stays], column[stays])
        margin = np.zeros(n)
        np.subtract(high, low, out=margin, where=high > low)
        is_far |= column < (low - FAR * margin)[groups]
        is_far |= column > (high + FAR * margin)[groups]
    return np.flatnonzero(has_left & is_far), now


def _of_asked(asked: kernels.Asked) -> dict[str, NDArray[Any]]:
    return {f"asked_{name}": array for name, array in asked._asdict().items()}


class Sieve:
    """Intervals of groups and what their profiles ask; which shards a message may concern."""

    def __init__(self, placement: Placement, contexts: Sequence[str], asked: Sequence[str]) -> None:
        """``contexts`` are attributes of contexts that are followed, ``asked`` of messages."""
        self.placement = placement
        self.contexts = {name: i for i, name in enumerate(contexts)}
        self.messages = list(asked)
        n_shards = int(placement.shards.max()) + 1
        n = len(placement.shards) + n_shards  # a shard's last group has profiles without a context
        self.shards = np.concatenate([placement.shards, np.arange(n_shards, dtype=np.int32)])
        self.lows, self.highs = (
            np.full((n, len(contexts)), np.inf),
            np.full((n, len(contexts)), -np.inf),
        )
        shape = (n, len(asked))
        terms = np.zeros((*shape, len(contexts) + 1, 3))
        self.asked = kernels.Asked(
            terms, terms.copy(), np.zeros(shape, np.bool_), np.zeros(shape, np.bool_),
            np.zeros(n, np.int64),
        )  # fmt: skip
        for shard in range(n_shards):
            self._clear(shard)
        self.widened = 0  # updates that left their group's interval

    # summaries -------------------------------------------------------------------------------

    def _clear(self, shard: int) -> None:
        """Nothing is asked by the profiles of a shard."""
        mine = self.shards == shard
        for terms, constant in ((self.asked.lows, np.inf), (self.asked.highs, -np.inf)):
            terms[mine] = (constant, np.inf, -np.inf)
        for array in self.asked[2:]:
            array[mine] = 0

    def summarise(self, shard: int, f: Filter, groups: NDArray[np.int64]) -> None:
        """Take in a shard's profiles and the values of its contexts; ``groups`` by context row."""
        self._clear(shard)
        mine = self.shards == shard
        self.lows[mine], self.highs[mine] = np.inf, -np.inf
        others = np.full(max(f._contexts.n_slots, 1), -1, np.int64)
        for name, i in self.contexts.items():
            if f._schema.type_of(name) == "string":
                continue
            for slot in f._contexts.slots.get(name, ())[:1]:
                others[slot] = i
                self._cover(groups, i, f._contexts.values[slot, : len(groups)])
        slots = np.full(max(f._messages.n_slots, 1), -1, np.int64)
        for i, name in enumerate(self.messages):
            if f._schema.type_of(name) != "string":  # labels are each filter's own
                for slot in f._messages.slots.get(name, ())[:1]:
                    slots[slot] = i
        nobodys = len(self.placement.shards) + shard
        view = f._conjunctions.view
        kernels.gather(
            np.append(groups, nobodys), slots, others, view.rows, f._conjunctions.n_rows,
            view.owner, view.shapes, view.forms, view.pool, *self.asked,
        )  # fmt: skip

    def _cover(self, groups: NDArray[np.int64], attribute: int, values: Column) -> None:
        known = ~np.isnan(values)
        np.minimum.at(self.lows[:, attribute], groups[known], values[known])
        np.maximum.at(self.highs[:, attribute], groups[known], values[known])

    def follow(self, groups: NDArray[np.int64], name: str, values: Column) -> int:
        """Contexts of these groups get new values; how many of them widened an interval."""
        attribute = self.contexts.get(name)
        if attribute is None:
            return 0
        low, high = self.lows[groups, attribute], self.highs[groups, attribute]
        n = int(((values < low) | (values > high)).sum())
        if n:
            self._cover(groups, attribute, values)
            self.widened += n
        return n

    def adopt(self, old: int, new: int) -> None:
        """A context of one group is now another's, which may ask whatever the old one may."""
        lows, highs, anything, nothing, n_rows = self.asked
        for terms, outermost in ((lows, np.minimum), (highs, np.maximum)):
            theirs, ours = terms[old], terms[new]
            merges = {kernels.CONSTANT: outermost, kernels.LEAST: np.minimum}
            for part, merge in (merges | {kernels.MOST: np.maximum}).items():
                ours[..., part] = merge(ours[..., part], theirs[..., part])
        anything[new] |= anything[old]
        nothing[new] |= nothing[old]
        n_rows[new] += n_rows[old]

    def told(self, shard: int) -> dict[str, NDArray[Any]]:
        """All that is known of a shard's groups."""
        mine = self.shards == shard
        arrays = {"lows": self.lows, "highs": self.highs, **_of_asked(self.asked)}
        found: dict[str, NDArray[Any]] = {name: array[mine] for name, array in arrays.items()}
        names = {"contexts": list(self.contexts), "messages": self.messages}
        return found | {what: np.array(listed, np.str_) for what, listed in names.items()}

    def hear(self, shard: int, told: Mapping[str, NDArray[Any]]) -> bool:
        """Take over what another sieve told of a shard's groups; False if it is about others."""
        if told["contexts"].tolist() != list(self.contexts):
            return False
        if told["messages"].tolist() != self.messages:
            return False
        mine = self.shards == shard
        arrays = {"lows": self.lows, "highs": self.highs, **_of_asked(self.asked)}
        if any(told[name].shape != array[mine].shape for name, array in arrays.items()):
            return False
        for name, array in arrays.items():
            array[mine] = told[name]
        return True

    # messages --------------------------------------------------------------------------------

    def shards_of(self, messages: Column, addresses: Sequence[Any] = ()) -> NDArray[np.bool_]:
        """``[message, shard]``: whether a message may concern it; messages by ``asked`` columns.

        ``addresses`` are as ``addressed`` gives them, one a message, None where it has none.
        """
        wanted = np.ones((len(messages), len(self.shards)), np.bool_)
        for i, address in enumerate(addresses):
            if address is not None:
                wanted[i] = address
        found = np.zeros((len(messages), int(self.shards.max()) + 1), np.bool_)
        lows, highs = self._bounds()
        kernels.may_match(messages, lows, highs, *self.asked[2:], self.shards, wanted, found)
        return found

    def _bounds(self) -> tuple[Column, Column]:
        """What groups ask of message slots, at their contexts' intervals as they are now."""
        one = np.zeros((len(self.lows), 1))
        ends = [np.hstack([side, one]) for side in (self.lows, self.highs)]
        found = []
        for terms, outermost in ((self.asked.lows, np.min), (self.asked.highs, np.max)):
            with np.errstate(invalid="ignore"):
                products = [
                    terms[..., factor] * end[:, None, :]
                    for factor in (kernels.LEAST, kernels.MOST)
                    for end in ends
                ]
                sums = outermost(np.array(products), axis=0) + terms[..., kernels.CONSTANT]
            none = np.inf if outermost is np.min else -np.inf
            sums[np.isnan(sums)] = -none  # nobody knows: anything
            # Nobody asks, or nobody has a value that it could be asked by.
            absent = ~np.isfinite(terms[..., kernels.LEAST])
            absent[..., :-1] |= (self.lows > self.highs)[:, None, :]
            found.append(outermost(np.where(absent, none, sums), axis=-1))
        return found[0], found[1]

    def addressed(self, f: Filter, address: str) -> NDArray[np.bool_]:
        """The groups that an address may reach; ``f`` is a filter with all attributes."""
        compiled = compile_address(f, address)
        found = np.zeros(len(self.shards), np.bool_)
        inhabited = np.arange(len(self.shards)) < len(self.placement.shards)
        alternatives = [compiled.plain] if compiled.plain is not None else []
        for said in [*alternatives, *(said for said, _ in compiled.tested)]:
            found |= self._within(f, said)
        return found & inhabited  # profiles without a context are never addressed

    def _within(self, f: Filter, said: Alternatives) -> NDArray[np.bool_]:
        """The groups that have an interval in common with one of some alternatives."""
        name_of = {slots[0]: name for name, slots in f._contexts.slots.items() if len(slots) == 1}
        starts, slots, lows, highs, outside = said.bundle.arrays[: points.OUTSIDE + 1]
        found = np.zeros(len(self.shards), np.bool_)
        for first, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            may = np.ones(len(self.shards), np.bool_)
            for k in range(first, end):
                attribute = self.contexts.get(name_of.get(int(slots[k]), ""))
                if attribute is None or f._schema.type_of(name_of[int(slots[k])]) == "string":
                    continue
                low, high = self.lows[:, attribute], self.highs[:, attribute]
                if outside[k]:
                    may &= (low < lows[k]) | (high > highs[k])
                else:
                    may &= (low <= highs[k]) & (high >= lows[k])
            found |= may
        return found
