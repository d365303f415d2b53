"""What a pattern may be turned into, and at which cost.

In: tables of the administrator and of a subscriber. Out: `Transformations`, checked; and `Prices`,
which both tables make together: what is listed counts before defaults, the subscriber's before the
administrator's. Nothing is transitive or symmetric. What is not listed cannot be renamed, nor, but
for a default, skipped; insertions are free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from germane.language.patterns import words_of
from germane.model import InvalidValue

__all__ = ["NONE", "PAPER", "Prices", "Transformations"]

Words = tuple[str, ...]
PAPER = {"skip": 15.0, "skip_value": 5.0, "rename": 1.0, "insert": 0.0}
"""The costs of paper ApproXFilter, section 6.1."""
DEFAULTS = ("skip", "skip_value", "rename", "rename_value", "insert")
KINDS = ("rename", "rename_value", "skip", "skip_value", "insert")
MAX_ENTRIES = 1_000_000


class Transformations:
    """Tables of renamings, skips and insertions with their costs.

    ``rename`` and ``rename_value`` map (from, to) to a cost, or list such pairs, which then cost
    the default; ``skip``, ``skip_value`` and ``insert`` map a label or a literal to a cost.
    ``defaults`` is "paper" or maps some of skip, skip_value, rename, rename_value and insert to the
    cost of whatever is not listed; for renamings, of what is listed without a cost.

    >>> Transformations(rename={("book", "article"): 4}, skip={"title": 10})
    Transformations(1 renaming, 1 skip)
    """

    def __init__(
        self,
        rename: Any = None,
        rename_value: Any = None,
        skip: Mapping[str, float] | None = None,
        skip_value: Mapping[str, float] | None = None,
        insert: Mapping[str, float] | None = None,
        defaults: Mapping[str, float] | str | None = None,
    ) -> None:
        self.defaults = _defaults(defaults)
        self.rename: dict[tuple[str, str], float] = {
            (_label(a), _label(b)): cost
            for (a, b), cost in self._pairs("rename", rename, self.defaults.get("rename"))
        }
        usual = self.defaults.get("rename_value", self.defaults.get("rename"))
        self.rename_value: dict[tuple[Words, Words], float] = {
            (_words(a), _words(b)): cost
            for (a, b), cost in self._pairs("rename_value", rename_value, usual)
        }
        self.skip = {_label(name): cost for name, cost in _costs("skip", skip)}
        self.skip_value = {_words(text): cost for text, cost in _costs("skip_value", skip_value)}
        self.insert = {_label(name): cost for name, cost in _costs("insert", insert)}

    @staticmethod
    def _pairs(
        kind: str, table: Any, usual: float | None
    ) -> Iterable[tuple[tuple[Any, Any], float]]:
        if table is None:
            return
        entries = table.items() if isinstance(table, Mapping) else ((pair, usual) for pair in table)
        for number, (pair, cost) in enumerate(entries):
            if number >= MAX_ENTRIES:
                raise InvalidValue(f"{kind} has more than {MAX_ENTRIES:,} entries")
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise InvalidValue(f"{kind} maps pairs (from, to) to costs, not {pair!r:.200}")
            if cost is None:
                raise InvalidValue(
                    f"{kind}: {pair!r:.200} has no cost, and there is no default for it"
                )
            yield (pair[0], pair[1]), _cost(kind, pair, cost)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for tables that say the same."""
        tables = (self.rename, self.rename_value, self.skip, self.skip_value, self.insert)
        return (*(frozenset(t.items()) for t in tables), frozenset(self.defaults.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transformations) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        counts = (
            (len(self.rename) + len(self.rename_value), "renaming"),
            (len(self.skip) + len(self.skip_value), "skip"),
            (len(self.insert), "insertion"),
        )
        said = [f"{n} {word}{'s' if n != 1 else ''}" for n, word in counts if n]
        said += [f"defaults={self.defaults}"] if self.defaults else []
        return f"Transformations({', '.join(said)})"

    def replaced(
        self,
        rename: dict[tuple[str, str], float],
        rename_value: dict[tuple[Words, Words], float],
        skip: dict[str, float],
        skip_value: dict[Words, float],
    ) -> Transformations:
        """The same with other tables, which are checked already."""
        new = Transformations(insert=self.insert, defaults=self.defaults)
        new.rename, new.rename_value = rename, rename_value
        new.skip, new.skip_value = skip, skip_value
        return new

    # plain data ------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as ``from_dict`` takes it."""
        return {
            "rename": [[a, b, cost] for (a, b), cost in self.rename.items()],
            "rename_value": [
                [" ".join(a), " ".join(b), cost] for (a, b), cost in self.rename_value.items()
            ],
            "skip": dict(self.skip),
            "skip_value": {" ".join(words): cost for words, cost in self.skip_value.items()},
            "insert": dict(self.insert),
            "defaults": dict(self.defaults),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Transformations:
        """Tables from plain data: renamings as lists [from, to, cost] or [from, to]."""
        if not isinstance(data, Mapping):
            raise InvalidValue(f"transformations are a mapping of tables, not {data!r:.200}")
        unknown = sorted(set(map(str, data)) - {*KINDS, "defaults"})
        if unknown:
            known = ", ".join((*KINDS, "defaults"))
            raise InvalidValue(f"unknown table {unknown[0]!r:.200}; the tables are {known}")
        defaults = _defaults(data.get("defaults"))
        tables: dict[str, Any] = {"defaults": defaults}
        for kind in KINDS:
            table = data.get(kind)
            if kind.startswith("rename") and isinstance(table, list | tuple):
                usual = defaults.get(kind, defaults.get("rename"))
                tables[kind] = dict(_triple(kind, entry, usual) for entry in table)
            else:
                tables[kind] = table
        return cls(**tables)

    @classmethod
    def read(cls, path: str | Path) -> Transformations:
        """Tables from a YAML file.

        rename:
          - [book, article, 4]
        skip: {title: 10}
        defaults: paper
        """
        try:
            import yaml
        except ModuleNotFoundError as error:
            raise InvalidValue(
                "reading YAML needs PyYAML; install it with: pip install 'germane[xml]'"
            ) from error
        try:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            data = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=loader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InvalidValue(f"{path}: {error}") from error
        try:
            return cls.from_dict({} if data is None else data)
        except InvalidValue as error:
            raise InvalidValue(f"{path}: {error}") from None

    @classmethod
    def from_table(
        cls, table: Any, defaults: Mapping[str, float] | str | None = None
    ) -> Transformations:
        """Tables from a DataFrame or an Arrow table: columns kind, from, to, cost.

        ``kind`` is rename, rename_value, skip, skip_value or insert; the last three have no ``to``.
        """
        import pyarrow as pa

        if not isinstance(table, pa.Table):
            if hasattr(table, "toArrow"):
                table = table.toArrow()
            elif hasattr(table, "to_arrow"):
                table = table.to_arrow()
            else:
                table = pa.Table.from_pandas(table, preserve_index=False)
        missing = {"kind", "from", "cost"} - set(table.column_names)
        if missing:
            raise InvalidValue(f"a table of transformations has a column {sorted(missing)[0]!r}")
        tables: dict[str, Any] = {kind: {} for kind in KINDS}
        for row in table.to_pylist():
            kind = row["kind"]
            if kind not in tables:
                raise InvalidValue(f"unknown kind {kind!r:.200}; the kinds are {', '.join(KINDS)}")
            pair = kind.startswith("rename")
            tables[kind][(row["from"], row.get("to")) if pair else row["from"]] = row["cost"]
        return cls(**tables, defaults=defaults)


class Prices:
    """The tables of a subscriber and of the administrator, taken together."""

    def __init__(self, own: Transformations, general: Transformations) -> None:
        self.own, self.general = own, general

    def labels(self, label: str) -> dict[str, float]:
        """What a structure may be in a document, and the cost of that."""
        return self._renamings(label, "_by_label")

    def phrases(self, words: Words) -> dict[Words, float]:
        """What a value may be in a document, and the cost of that."""
        return self._renamings(words, "_by_words")

    def _renamings(self, source: Any, table: str) -> dict[Any, float]:
        found = dict(_index(self.general, table).get(source, {}))
        found.update(_index(self.own, table).get(source, {}))
        found[source] = 0.0
        return found

    def skip(self, label: str) -> float:
        """The cost of doing without a structure."""
        return self._listed("skip", label)

    def skip_value(self, words: Words) -> float:
        """The cost of doing without a value."""
        return self._listed("skip_value", words)

    def _listed(self, kind: str, what: Any) -> float:
        for layer in (self.own, self.general):
            table: dict[Any, float] = getattr(layer, kind)
            if what in table:
                return table[what]
        return self._default(kind, math.inf)

    def _default(self, kind: str, otherwise: float) -> float:
        return self.own.defaults.get(kind, self.general.defaults.get(kind, otherwise))

    @cached_property
    def insertions(self) -> tuple[float, tuple[tuple[str, float], ...]]:
        """The usual cost of passing over an element, and that of some."""
        listed = {**self.general.insert, **self.own.insert}
        return self._default("insert", 0.0), tuple(sorted(listed.items()))


def _index(tables: Transformations, which: str) -> dict[Any, dict[Any, float]]:
    """Renamings by what is renamed, made once."""
    known: dict[Any, dict[Any, float]] | None = tables.__dict__.get(which)
    if known is None:
        known = {}
        pairs: Any = tables.rename if which == "_by_label" else tables.rename_value
        for (source, target), cost in pairs.items():
            known.setdefault(source, {})[target] = cost
        tables.__dict__[which] = known
    return known


def _triple(kind: str, entry: Any, usual: float | None) -> tuple[tuple[Any, Any], Any]:
    if not isinstance(entry, list | tuple) or len(entry) not in (2, 3):
        raise InvalidValue(f"{kind} lists [from, to, cost], not {entry!r:.200}")
    cost = entry[2] if len(entry) == 3 else usual
    if cost is None:
        raise InvalidValue(f"{kind}: {entry!r:.200} has no cost, and there is no default for it")
    return (entry[0], entry[1]), cost


def _defaults(given: Any) -> dict[str, float]:
    if given is None:
        return {}
    if given == "paper":
        return dict(PAPER)
    if not isinstance(given, Mapping):
        raise InvalidValue(f"defaults is 'paper' or maps kinds to costs, not {given!r:.200}")
    unknown = sorted(set(map(str, given)) - set(DEFAULTS))
    if unknown:
        raise InvalidValue(f"no default for {unknown[0]!r:.200}; there are {', '.join(DEFAULTS)}")
    return {kind: _cost("defaults", kind, cost) for kind, cost in given.items()}


def _costs(kind: str, table: Any) -> Iterable[tuple[Any, float]]:
    if table is None:
        return
    if not isinstance(table, Mapping):
        raise InvalidValue(f"{kind} maps names to costs, not {table!r:.200}")
    if len(table) > MAX_ENTRIES:
        raise InvalidValue(f"{kind} has more than {MAX_ENTRIES:,} entries")
    for what, cost in table.items():
        yield what, _cost(kind, what, cost)


def _cost(kind: str, what: Any, cost: Any) -> float:
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        raise InvalidValue(f"{kind}: the cost of {what!r:.200} is a number, not {cost!r:.200}")
    if not math.isfinite(cost) or cost < 0:
        raise InvalidValue(
            f"{kind}: the cost of {what!r:.200} is finite and not negative, not {cost!r}"
        )
    return float(cost)


def _label(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or any(c.isspace() for c in name):
        raise InvalidValue(f"a label is a name without spaces, not {name!r:.200}")
    return name


def _words(text: Any) -> Words:
    words = words_of(text) if isinstance(text, str) else ()
    if not words:
        raise InvalidValue(f"a value is a text with at least one word, not {text!r:.200}")
    return words


NONE = Transformations()
