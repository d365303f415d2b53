"""The second oracle: DuckDB reads the same conditions and must find the same truth values.

A condition is translated token by token, never through our tree, so that DuckDB's own parser
decides precedence and grouping. A row of the table is a message and a context side by side:
`n` becomes the column `m0`, `context.n` the column `c0`. Numbers are finite doubles, and DuckDB
is told that a division by zero is NULL; NaN and the infinities are left to the naive oracle.
"""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import generate
import pytest
from generate import FINITE, Choices
from naive import NaiveFilter, microseconds, tokenize

N_CONDITIONS = 25
N_ROWS = 30
COLUMN_TYPES = {
    "number": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMP",
}


def to_sql(condition: str, schema: dict[str, str]) -> str:
    """The condition with columns for names, doubles for numbers and UTC for timestamps."""
    names = list(schema)
    tokens = tokenize(condition)
    out, at = [], 0
    while tokens[at][0] != "end":
        kind, text = tokens[at]
        if kind == "number":
            out.append(f"CAST({text} AS DOUBLE)")
        elif text.upper() == "TIMESTAMP":
            at += 1
            moment = datetime.fromisoformat(tokens[at][1].strip("'"))
            out.append(f"make_timestamp({microseconds(moment)})")
        elif text == "context":
            at += 2
            out.append(f"c{names.index(tokens[at][1].strip(chr(34)))}")
        elif kind == "quoted" or (kind == "word" and text != "ABS"):
            out.append(f"m{names.index(text.strip(chr(34)))}")
        else:
            out.append(text)
        at += 1
    return " ".join(out)


def to_column(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Scenario:
    """A schema, conditions, and rows of (message, context), with DuckDB's truth for each."""

    def __init__(self, seed: int) -> None:
        c = Choices.from_seed(seed)
        self.schema = generate.schema(c)
        self.conditions = [
            generate.condition(c, self.schema, values=FINITE) for _ in range(N_CONDITIONS)
        ]
        self.rows = [
            (generate.record(c, self.schema, FINITE), generate.record(c, self.schema, FINITE))
            for _ in range(N_ROWS)
        ]

    def truths(self, database: duckdb.DuckDBPyConnection) -> list[tuple[bool | None, ...]]:
        """One tuple per row, with one truth value per condition."""
        columns = [
            f"{side}{at} {COLUMN_TYPES[type_]}"
            for side in "mc"
            for at, type_ in enumerate(self.schema.values())
        ]
        database.execute(f"CREATE OR REPLACE TABLE work (row INTEGER, {', '.join(columns)})")
        marks = ", ".join("?" * (1 + len(columns)))
        values = [
            [at, *(to_column(side.get(name)) for side in row for name in self.schema)]
            for at, row in enumerate(self.rows)
        ]
        database.executemany(f"INSERT INTO work VALUES ({marks})", values)
        selected = ", ".join(f"({to_sql(text, self.schema)})" for text in self.conditions)
        return database.execute(f"SELECT {selected} FROM work ORDER BY row").fetchall()


@pytest.fixture(scope="module")
def database():
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET ieee_floating_point_ops = false")  # x / 0 is no infinity
        connection.execute("SET error_on_division_by_zero = false")  # and no error, but NULL
        connection.execute("PRAGMA disable_optimizer")  # evaluate as written
        yield connection


@pytest.mark.parametrize("seed", range(60))
def test_naive_agrees_with_duckdb(database, seed):
    work = Scenario(seed)
    f = NaiveFilter(work.schema)
    for id, condition in enumerate(work.conditions):
        f.subscribe(id, condition, context="ann")
    for (message, context), truths in zip(work.rows, work.truths(database), strict=True):
        f.update("ann", dict.fromkeys(work.schema) | context)
        for id, truth in enumerate(truths):
            assert f.truth(id, message) is truth, (work.conditions[id], message, context)


@pytest.mark.parametrize("index", ["scan", "agile"])
@pytest.mark.parametrize("seed", range(100, 130))
def test_filter_agrees_with_duckdb(database, seed, index):
    import germane

    work = Scenario(seed)
    f = germane.Filter(index=index, schema=work.schema)
    ids = [f"p{at:02}" for at in range(N_CONDITIONS)]
    f.subscribe_many(ids, work.conditions, ["ann"] * N_CONDITIONS)
    for (message, context), truths in zip(work.rows, work.truths(database), strict=True):
        f.update("ann", dict.fromkeys(work.schema) | context)
        expected = [id for id, truth in zip(ids, truths, strict=True) if truth]
        assert f.match(message) == expected, (message, context)
