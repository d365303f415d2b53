"""Messages that are addressed to contexts: who is reached.

In: an address, a condition whose names are attributes of the recipient's context. Out: the contexts
for which it is TRUE now. It is compiled as conditions are and run by the same machine, so it means
what it would mean in a profile. An address teaches the filter nothing: it fixes no type, and makes
no attribute and no string known.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.filter.batches import Found
from germane.filter.compile import Names, compile_row
from germane.kernels import addresses as kernels
from germane.kernels.conjunctions import ROW
from germane.language import compile_condition
from germane.model import InvalidValue

if TYPE_CHECKING:
    from germane.filter.filter import Filter


class Address(NamedTuple):
    """A compiled address; it holds until strings or graphs are numbered anew."""

    code: NDArray[np.int32]
    constants: NDArray[np.float64]


def compile_address(f: "Filter", text: Any) -> Address:
    """An address, checked against the filter's schema."""
    if not isinstance(text, str):
        raise InvalidValue(f"an address is a condition on contexts, as a str, not {text!r:.200}")
    draft = f._schema.draft("this address")
    condition = compile_condition(text, draft, names="address")

    def slots_of(name: str) -> tuple[int, ...]:
        """The slots of a context attribute; none while nobody has a value."""
        slots = f._contexts.slots.get(name, ())
        return () if draft.type_of(name) == "location" and len(slots) < 2 else slots

    names = Names(
        message=lambda name: (),  # an address names none
        context=slots_of,
        type_of=draft.type_of,
        label=f._strings.label,
        category=f._categories.constant,
        graph=f._categories.graph_of,
        pattern=lambda text, threshold: 0.0,
        texts=f._texts,
    )
    shape, constants, _ = compile_row((condition.nnf,), names)
    code = np.array(shape.wakes or shape.program, np.int32).reshape(-1, 3)
    return Address(code, np.array([*constants, 0.0]))


def reached(f: "Filter", address: Address) -> NDArray[np.bool_]:
    """Of each context's row, whether an address reaches it now."""
    f._tables.follow_graphs()
    f._categories.refresh()
    n = f._contexts.ids.n_rows
    found = np.zeros(n, np.bool_)
    row = np.zeros(1, ROW)
    row["step"] = 2  # constants lie one after the other
    owner = np.zeros(1, np.int32)
    wanted = np.arange(n, dtype=np.int32)
    waiting = np.empty(n, np.int32)
    while len(wanted):
        n_waiting = kernels.test_contexts(
            wanted, len(address.code), row, owner, address.code, address.constants,
            f._contexts.values, *f._texts.view, f._tables.graphs, found, waiting,
        )  # fmt: skip
        wanted = waiting[:n_waiting].copy()
        if n_waiting:
            f._texts.answer({})
    return found


class Addressed:
    """Addresses of the messages of a run: compiled before, applied after they are matched."""

    def __init__(self, f: "Filter") -> None:
        self.f = f
        self._known: dict[str, Address] = {}
        self._reached: dict[str, NDArray[np.bool_]] = {}

    def check(self, text: Any) -> None:
        """Raise what is wrong with an address."""
        if not isinstance(text, str) or text not in self._known:
            address = compile_address(self.f, text)
            self._known[text] = address

    def keep(self, text: str, profiles: NDArray[np.int32]) -> NDArray[np.int32]:
        """The profiles, by row, whose contexts an address reaches; never those without one."""
        if text not in self._reached:
            self.check(text)
            self._reached[text] = reached(self.f, self._known[text])
        owners = self.f._profiles.ids._owners_of(profiles)
        there = self._reached[text]
        if not len(there):
            return profiles[:0]
        return profiles[(owners >= 0) & there[np.maximum(owners, 0)]]

    def filter(self, found: Found, texts: list[Any]) -> Found:
        """What was found for messages, less those whom their addresses do not reach."""
        for i, text in enumerate(texts):
            if text is not None and found.counts[i]:
                part, start = found.parts[found.part[i]], int(found.starts[i])
                kept = self.keep(text, part[start : start + int(found.counts[i])])
                part[start : start + len(kept)] = kept
                found.counts[i] = len(kept)
        return found._replace(total=int(found.counts.sum()))
