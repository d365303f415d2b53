"""``Space``: the attributes that contexts may have; aggregates of contexts; addresses.

In: contexts as dicts, filters as ``Where``. Out: ``Aggregate`` (a mask and a row of numbers, the
form that links carry and kernels read) and ``Address`` (filters in arrays). Merging is commutative,
associative and idempotent, so a group's aggregate does not depend on the order of its members; and
whatever a context meets, every aggregate that covers it may meet.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.cast.types import Taxonomy, Type
from germane.kernels import addressed, aggregates
from germane.model import InvalidValue, TypeMismatch, UnknownAttribute

MAX_ATTRIBUTES = 62
Row = NDArray[np.float64]


class Aggregate(NamedTuple):
    """A context, or what many have in common; columns of absent attributes mean nothing."""

    mask: int
    row: Row


class Where(NamedTuple):
    """One filter of an address.

    ``operator`` is ``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``, ``in``, ``not in``, ``within``,
    ``box``, ``is null``, ``is not null``; or ``test``, where ``value`` is a function of a context's
    attribute (None where it is missing), which aggregates cannot decide: they may match.
    """

    attribute: str
    operator: str
    value: Any = None


class Address(NamedTuple):
    """A conjunction of filters, in arrays."""

    filters: NDArray[np.int64]
    given: Row
    needed: int  # the mask of attributes without which nothing matches
    tests: tuple[tuple[str, Callable[[Any], Any]], ...]


class Space:
    """Attributes by name, each of a type.

    >>> from germane.cast import Number
    >>> space = Space({"age": Number(0, 100)})
    >>> both = space.merge(space.encode({"age": 20}), space.encode({"age": 30}))
    >>> space.decode(both)
    {'age': (20.0, 30.0)}
    >>> space.may_match(both, space.address([Where("age", "=", 25)]))
    True
    """

    def __init__(self, attributes: Mapping[str, Type]) -> None:
        if len(attributes) > MAX_ATTRIBUTES:
            raise InvalidValue(f"a space has at most {MAX_ATTRIBUTES} attributes")
        self.types = dict(attributes)
        self.number = {name: i for i, name in enumerate(self.types)}
        forms, at, n_nodes = [], 0, 0
        trees: list[NDArray[np.int32]] = [np.empty((4, 0), np.int32)]
        for name, kind in self.types.items():
            height = 0
            if isinstance(kind, Taxonomy):
                self.types[name] = kind = copy(kind)  # a space has its own numbers of nodes
                kind.offset, height = n_nodes, kind.height
                parent = np.where(kind.parent < 0, aggregates.NONE, kind.parent + n_nodes)
                tree = np.stack([parent, kind.level, kind.enter, kind.leave])
                tree[2:] += n_nodes
                trees.append(tree.astype(np.int32))
                n_nodes += len(kind.names)
            forms.append((kind.kind, at, kind.width, height))
            at += kind.width
        self.n_columns = at
        self.forms = aggregates.Forms(
            np.array(forms, np.int64).reshape(-1, 4),
            np.array([kind.lengths for kind in self.types.values()]).reshape(-1, 2),
            np.concatenate(trees, axis=1),
            np.array(sorted(range(len(forms)), key=lambda a: forms[a][0] == aggregates.LOCATION)),
        )

    # contexts --------------------------------------------------------------------------------

    def encode(self, context: Mapping[str, Any]) -> Aggregate:
        """The aggregate of one context; None is a missing attribute."""
        mask, row = 0, np.zeros(self.n_columns)
        for name, value in context.items():
            a = self._attribute(name)
            if value is None:
                continue
            at = self.forms.forms[a, aggregates.AT]
            columns = self._told(name, self.types[name].encode, value)
            row[at : at + len(columns)] = columns
            mask |= 1 << a
        return Aggregate(mask, row)

    def decode(self, aggregate: Aggregate) -> dict[str, Any]:
        """An aggregate in words: intervals and boxes as tuples, sets, ("below", class)."""
        found = {}
        for name, a in self.number.items():
            if aggregate.mask >> a & 1:
                _, at, width, _ = self.forms.forms[a].tolist()
                found[name] = self.types[name].decode(aggregate.row[at : at + width].tolist())
        return found

    def _attribute(self, name: str) -> int:
        number = self.number.get(name)
        if number is None:
            raise UnknownAttribute(f"{name!r:.200} is no attribute; there are {list(self.types)}")
        return number

    def _told(self, name: str, encode: Callable[[Any], Any], value: Any) -> Any:
        """Errors name the attribute."""
        try:
            return encode(value)
        except (InvalidValue, TypeMismatch) as error:
            raise type(error)(f"{name!r}: {error}") from None

    # aggregates ------------------------------------------------------------------------------

    def merge(self, first: Aggregate, second: Aggregate) -> Aggregate:
        """Algorithm 1: the smallest aggregate that covers both."""
        row = first.row.copy()
        mask = aggregates.merge(self.forms, row, first.mask, second.row, second.mask)
        return Aggregate(int(mask), row)

    def similarity(self, first: Aggregate, second: Aggregate) -> float:
        """Equation (3): 0 for no shared attribute, 1 for equal ones."""
        return float(
            aggregates.similarity(self.forms, first.row, first.mask, second.row, second.mask)
        )

    def covers(self, first: Aggregate, second: Aggregate) -> bool:
        """Whether merging the second into the first would change nothing."""
        return bool(aggregates.covers(self.forms, first.row, first.mask, second.row, second.mask))

    def equal(self, first: Aggregate, second: Aggregate) -> bool:
        return bool(aggregates.same(self.forms, first.row, first.mask, second.row, second.mask))

    # addresses -------------------------------------------------------------------------------

    def address(self, wheres: Iterable[Where]) -> Address:
        """Filters in arrays; an attribute that the space does not have is an error."""
        filters: list[tuple[int, int, int, int]] = []
        given: list[float] = []
        needed = 0
        tests: list[tuple[str, Callable[[Any], Any]]] = []
        for where in wheres:
            a, operator = self._attribute(where.attribute), where.operator.lower()
            if operator == "test":
                tests.append((where.attribute, where.value))
                filters.append((a, addressed.MAYBE, 0, 0))
                continue
            if operator == "is null":
                filters.append((a, addressed.IS_NULL, 0, 0))
                continue
            needed |= 1 << a
            if operator == "is not null":
                filters.append((a, addressed.NOT_NULL, 0, 0))
                continue
            operation, operands = self._operation(where, operator)
            filters.append((a, operation, len(given), len(operands)))
            given += operands
        # Locations first: they tell most apart.
        filters.sort(key=lambda f: self.forms.forms[f[0], aggregates.KIND] != aggregates.LOCATION)
        return Address(
            np.array(filters, np.int64).reshape(-1, 4), np.array(given, float), needed, tuple(tests)
        )

    def _operation(self, where: Where, operator: str) -> tuple[int, list[float]]:
        kind = self.types[where.attribute]
        operation = kind.operators.get(operator)
        if operation is None:
            known = [*kind.operators, "is null", "is not null", "test"]
            raise TypeMismatch(f"{where.attribute!r} has {known}, not {where.operator!r:.200}")
        operands = self._told(where.attribute, lambda v: kind.operands(operator, v), where.value)
        return operation, operands

    def may_match(self, aggregate: Aggregate, address: Address) -> bool:
        """Whether some context that the aggregate covers could match; never False if one does."""
        return self._meets(aggregate, address, False)

    def matches(self, context: Aggregate, address: Address) -> bool:
        """Whether a context matches."""
        return self._meets(context, address, True) and self.passes(context, address)

    def _meets(self, aggregate: Aggregate, address: Address, exact: bool) -> bool:
        mask, row = aggregate
        filters, given = address.filters, address.given
        return bool(addressed.meets(self.forms, row[None], 0, mask, filters, given, exact))

    def passes(self, context: Aggregate, address: Address) -> bool:
        """Whether the tests of an address, functions of Python, hold."""
        if not address.tests:
            return True
        values = self.decode(context)
        return all(test(values.get(name)) is True for name, test in address.tests)
