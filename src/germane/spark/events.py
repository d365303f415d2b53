"""Inputs -> one DataFrame of events, each with the shards that must see it.

A profile lives where its context does: a context's updates go to one shard, messages go to all.
A profile may come back with a context of another shard, so other shards may have to know of it:
``home`` is the one that registers it, or answers for an event that nobody takes. Ids are carried
as int64 if all of them are integers, else as strings.

Columns are written as SQL: one call to Spark for all of them, not a dozen for each.
"""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, types

from germane.approx.transformations import Transformations
from germane.filter.events import FIELDS as OF_EVENTS
from germane.filter.events import GRAPH, MESSAGE, SUBSCRIBE, UPDATE
from germane.model import InvalidValue, Schema
from germane.model.types import CATEGORY, XML
from germane.spark.calls import select
from germane.spark.documents import SQL, parser
from germane.spark.graphs import attributes
from germane.spark.layout import DOCUMENT, EVENT, FIELDS, HOME, SHARD, VALUES, Layout, carried
from germane.spark.sessions import is_remote

MOST_SHARDS = 100_000
_INTEGERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
_NUMBERS = (*_INTEGERS, types.FloatType, types.DoubleType, types.DecimalType)
_NAIVE = (types.TimestampNTZType, types.DateType)  # UTC's, whatever the session's time zone is
_TIMES = (types.TimestampType, *_NAIVE)
_SPARK_TYPES = {
    "number": "double", "string": "string", "boolean": "boolean", "timestamp": "timestamp",
    CATEGORY: "array<string>",
}  # fmt: skip
_REQUIRED = {
    "messages": ("seq", "id"),
    "profiles": ("id", "condition"),
    "contexts": ("id",),
    "updates": ("seq", "context"),
}
_RESERVED = {*FIELDS, *OF_EVENTS}
_NOT_ATTRIBUTES = {
    "messages": {"seq", "id", "address"},
    "contexts": {"id"},
    "updates": {"seq", "context", "removed"},
}


class Inputs(NamedTuple):
    """What a caller brings."""

    messages: DataFrame
    profiles: DataFrame | None  # none: there are some already
    contexts: DataFrame | None = None
    updates: DataFrame | None = None

    def there(self) -> dict[str, DataFrame]:
        """The inputs that were given, by name."""
        return {name: frame for name, frame in self._asdict().items() if frame is not None}

    @property
    def session(self) -> SparkSession:
        """The session of the inputs."""
        return self.messages.sparkSession


def layout(
    inputs: Inputs,
    transformations: Transformations | None = None,
    graphs: list[dict[str, Any]] | None = None,
) -> Layout:
    """Check the inputs: their columns, their types, their ids."""
    for name, frame in inputs.there().items():
        _require(frame, name, *_REQUIRED[name])
        _check_seq(frame, name)
    message = _id_type(inputs.messages, "messages", "id")
    profiles = inputs.profiles
    profile = message if profiles is None else _id_type(profiles, "profiles", "id")
    owners = [
        _id_type(frame, name, column)
        for frame, name, column in (
            (inputs.contexts, "contexts", "id"),
            (inputs.updates, "updates", "context"),
            (profiles, "profiles", "context"),
        )
        if frame is not None and column in frame.columns
    ]
    context = _widest(owners)
    kinds = (message, profile, *owners)
    ids = "bigint" if all(isinstance(kind, _INTEGERS) for kind in kinds) else "string"
    names = [kind.simpleString() for kind in (message, profile, context)]
    owned = profiles is None or "context" in profiles.columns
    addressed = "address" in inputs.messages.columns
    if addressed and not isinstance(inputs.messages.schema["address"].dataType, types.StringType):
        raise InvalidValue("column 'address' of messages is a condition on contexts, a string")
    described = graphs or []
    schema = _schema(inputs.there(), attributes(described))
    document = ""
    if schema.get(DOCUMENT) == XML:
        document = inputs.messages.schema[DOCUMENT].dataType.simpleString()
    tables = None if transformations is None else transformations.as_dict()
    message_kind, profile_kind, context_kind = names
    return Layout(
        schema, ids, message_kind, profile_kind, context_kind, owned, addressed, document, tables,
        described, profiles is not None and "dialect" in profiles.columns,
    )  # fmt: skip


def with_parsed(messages: DataFrame, agreed: Layout) -> tuple[DataFrame, Layout]:
    """Messages of a batch job with their documents parsed, and what is agreed on then."""
    if not agreed.document:
        return messages, agreed
    kind = SQL.format(raw=agreed.document)
    strange = [name for name in messages.columns if any(letter in name for letter in ".`%")]
    if strange:  # the parser gets the columns as they are
        raise InvalidValue(
            f"beside documents, columns of messages have no dots, backticks or % in their names: "
            f"rename {', '.join(map(repr, strange))}"
        )
    columns = [
        f"{quoted(f.name)} {kind if f.name == DOCUMENT else f.dataType.simpleString()}"
        for f in messages.schema.fields
    ]
    made = messages.mapInArrow(parser(DOCUMENT, agreed.document), ", ".join(columns))
    return made, agreed._replace(document=kind)


def check_shards(shards: int | None, session: SparkSession) -> int:
    """A number of shards; by default, as many as tasks run at once."""
    if shards is None:
        if is_remote(session):
            raise InvalidValue("Spark Connect does not tell how many tasks run: give shards=…")
        return session.sparkContext.defaultParallelism
    if isinstance(shards, int) and not isinstance(shards, bool) and 1 <= shards <= MOST_SHARDS:
        return shards
    raise InvalidValue(f"shards is a number from 1 to {MOST_SHARDS:,}, not {shards!r:.200}")


def merge(inputs: Inputs, agreed: Layout, n_shards: int) -> DataFrame:
    """All inputs of a batch job, an event a row for each shard that must see it."""
    everyone = f"explode({_all_shards(n_shards)})"
    parts = [_of_messages(inputs.messages, agreed, {SHARD: everyone})]
    if inputs.profiles is not None:
        parts.append(_placed(_of_profiles(inputs.profiles, agreed, n_shards), agreed, n_shards))
    if inputs.contexts is not None:
        parts.append(_of_contexts(inputs.contexts, VALUES, agreed, n_shards))
    if inputs.updates is not None:
        parts.append(_of_contexts(inputs.updates, UPDATE, agreed, n_shards))
    return _union(parts)


def merge_messages(messages: DataFrame, agreed: Layout, n_shards: int) -> DataFrame:
    """Messages alone, a row for each shard, without the columns that only other events have."""
    columns = _message_columns(messages, agreed)
    return messages.selectExpr(f"explode({_all_shards(n_shards)}) AS {SHARD}", *columns)


def message_structs(messages: DataFrame, agreed: Layout) -> DataFrame:
    """Messages alone, each once, as structs in one column.

    One column, since the driver asks the JVM about each column of a frame that goes to Python.
    """
    columns = ", ".join(_message_columns(messages, agreed))
    return select(messages, f"struct({columns}) AS {EVENT}")


def _message_columns(messages: DataFrame, agreed: Layout) -> list[str]:
    there = set(messages.columns)
    return [
        f"{_cast(messages, name, kind)} AS {quoted(carried(name))}"
        for name, kind in event_columns(agreed).items()
        if name in there and (name not in FIELDS or name in ("seq", "id", "address"))
    ]


def merge_stream(
    inputs: Inputs, agreed: Layout, n_shards: int, empty: DataFrame | None = None
) -> DataFrame:
    """The streaming inputs, an event a row: who must see it is seen by its kind.

    ``empty`` is one more, of which only matters that it is asked.
    """
    parts = [_of_messages(inputs.messages, agreed, {})]
    if inputs.profiles is not None and inputs.profiles.isStreaming:
        parts.append(_events(_of_profiles(inputs.profiles, agreed, n_shards), agreed, _PROFILE))
    if inputs.updates is not None:
        parts.append(_of_contexts(inputs.updates, UPDATE, agreed, n_shards))
    if empty is not None:
        nothing = empty.selectExpr("CAST(NULL AS bigint) AS seq")
        parts.append(_events(nothing, agreed, {"kind": "''"}))
    return _union(parts)


def merge_before(
    inputs: Inputs, agreed: Layout, n_shards: int, places: DataFrame | None = None
) -> DataFrame | None:
    """What a stream starts from: the inputs that are no streams.

    ``places`` has the shards (``_place``) of contexts (``_key``) that do not live by their hash.
    """
    parts = []
    if inputs.profiles is not None and not inputs.profiles.isStreaming:
        profiles = _of_profiles(inputs.profiles, agreed, n_shards, places)
        parts.append(_placed(profiles, agreed, n_shards))
    if inputs.contexts is not None:
        parts.append(_of_contexts(inputs.contexts, VALUES, agreed, n_shards, places))
    return _union(parts) if parts else None


def merge_resumed(
    events: DataFrame,
    agreed: Layout,
    n_shards: int,
    tell_all: bool,
    places: DataFrame | None = None,
) -> DataFrame:
    """Another stream's state, as events from before everything, dealt out anew.

    ``tell_all``: profiles may come and go, so that all shards must know who is there.
    """
    is_profile = f"kind = '{SUBSCRIBE}'"
    owned = f"(NOT ({is_profile}) OR context IS NOT NULL)"
    key = f"coalesce(CASE WHEN {is_profile} THEN context END, id)"
    home = _place(key, owned, n_shards)
    events, home = _by_place(events, key, home, places, owned)
    shard = f"CASE WHEN {is_profile} THEN NULL ELSE {home} END" if tell_all else home
    names = [quoted(carried(name)) for name in agreed.schema]
    same = {name: name for name in FIELDS}
    fields = {**same, HOME: home, SHARD: shard}
    texts = [f"{fields[n]} AS {n}" for n in event_columns(agreed) if n in FIELDS]
    return events.selectExpr(*texts, *names)


def event_columns(agreed: Layout) -> dict[str, str]:
    """The columns of events, and their SQL types."""
    return {
        SHARD: "int", HOME: "int", "seq": "bigint", "kind": "string", "id": agreed.ids,
        "context": agreed.ids, "condition": "string",
        **({"dialect": "string"} if agreed.dialects else {}), "removed": "array<string>",
        **({"address": "string"} if agreed.addressed else {}),
        **{
            n: _SPARK_TYPES.get(type_, agreed.document)
            for n, type_ in agreed.schema.items()
            if type_ != XML or agreed.document
        },
    }  # fmt: skip


def quoted(name: str) -> str:
    """A column of any name, in SQL."""
    return f"`{name.replace('`', '``')}`"


# attributes ------------------------------------------------------------------------------------


def _schema(inputs: dict[str, DataFrame], categories: set[str]) -> dict[str, str]:
    """The attributes of all inputs and their types, which must agree."""
    schema: dict[str, str] = {}
    told: dict[str, str] = {}
    for input_, others in _NOT_ATTRIBUTES.items():
        if input_ not in inputs:
            continue
        for field in inputs[input_].schema.fields:
            name = field.name
            if name in others:
                continue
            if name in _RESERVED:
                raise InvalidValue(
                    f"an attribute cannot be called {name!r}: {input_} have a column of that name, "
                    "which events use themselves; rename it"
                )
            type_ = _attribute_type(input_, field, name in categories)
            if schema.setdefault(name, type_) != type_:
                raise InvalidValue(
                    f"attribute {name!r} is a {schema[name]} in {told[name]} but a {type_} in "
                    f"{input_}; cast one of them"
                )
            told.setdefault(name, input_)
    Schema(schema)  # refuses names that conditions could not say
    return schema


def _attribute_type(input_: str, field: types.StructField, is_category: bool) -> str:
    kind = field.dataType
    if is_category:
        if isinstance(getattr(kind, "elementType", kind), types.StringType):
            return CATEGORY
        raise InvalidValue(
            f"column {field.name!r} of {input_} is {kind.simpleString()}; nodes of a graph are "
            "strings, or arrays of strings"
        )
    if input_ == "messages" and field.name == DOCUMENT:
        if isinstance(kind, (types.StringType, types.BinaryType)):
            return XML
        raise InvalidValue(f"column 'document' is XML, string or binary, not {kind.simpleString()}")
    if isinstance(kind, _NUMBERS):
        return "number"
    if isinstance(kind, types.StringType):
        return "string"
    if isinstance(kind, types.BooleanType):
        return "boolean"
    if isinstance(kind, _TIMES):
        return "timestamp"
    raise InvalidValue(
        f"column {field.name!r} of {input_} is {kind.simpleString()}; attributes are numbers, "
        "strings, booleans or timestamps, or nodes of a graph in graphs={…}"
    )


_NONE = "CAST(array() AS array<string>)"
"""An empty list: on its way to Python, Spark goes over a column's nulls again with every row."""


def _events(frame: DataFrame, agreed: Layout, fields: dict[str, str]) -> DataFrame:
    """An input as events: its attributes, and the fields, in SQL; null what it does not have."""
    there = set(frame.columns)
    columns = []
    for name, kind in event_columns(agreed).items():
        if name in FIELDS:
            text = fields.get(name, _NONE if name == "removed" else f"CAST(NULL AS {kind})")
        else:
            text = _cast(frame, name, kind) if name in there else f"CAST(NULL AS {kind})"
        columns.append(f"{text} AS {quoted(carried(name))}")
    return frame.selectExpr(*columns)


def _cast(frame: DataFrame, name: str, kind: str) -> str:
    """A column of a frame as what it travels as; one node is a list of one."""
    column = quoted(name)
    has = frame.schema[name].dataType
    if kind == "array<string>" and isinstance(has, types.StringType):
        return f"CASE WHEN {column} IS NOT NULL THEN array({column}) END"
    if kind == "timestamp" and isinstance(has, _NAIVE):
        return f"CAST(concat(CAST(CAST({column} AS timestamp_ntz) AS string), 'Z') AS timestamp)"
    return f"CAST({column} AS {kind})"


def _union(parts: list[DataFrame]) -> DataFrame:
    """Events of all parts."""
    first, *others = parts
    for other in others:
        first = first.union(other)
    return first


# inputs ----------------------------------------------------------------------------------------

_PROFILE = {name: name for name in (HOME, "seq", "kind", "id", "context", "condition", "dialect")}


def _of_messages(messages: DataFrame, agreed: Layout, placed: dict[str, str]) -> DataFrame:
    fields = {
        HOME: "0", "seq": "CAST(seq AS bigint)", "kind": f"'{MESSAGE}'",
        "id": f"CAST(id AS {agreed.ids})",
    }  # fmt: skip
    if agreed.addressed:
        fields["address"] = "address"
    return _events(messages, agreed, fields | placed)


def _of_contexts(
    frame: DataFrame, kind: str, agreed: Layout, n_shards: int, places: DataFrame | None = None
) -> DataFrame:
    """Updates, or values from before everything."""
    key = f"CAST({'context' if kind == UPDATE else 'id'} AS {agreed.ids})"
    frame, home = _by_place(frame, key, _place(key, "true", n_shards), places)
    fields = {SHARD: home, HOME: home, "kind": f"'{kind}'", "id": key}
    if kind == UPDATE:
        fields["seq"] = "CAST(seq AS bigint)"
        if "removed" in frame.columns:
            fields["removed"] = f"coalesce(CAST(removed AS array<string>), {_NONE})"
    return _events(frame, agreed, fields)


def _of_profiles(
    profiles: DataFrame, agreed: Layout, n_shards: int, places: DataFrame | None = None
) -> DataFrame:
    """Subscriptions, which live where their context does, and unsubscriptions."""
    there = set(profiles.columns)
    seq, op, context, dialect = (
        n if n in there else "NULL" for n in ("seq", "op", "context", "dialect")
    )
    frame = profiles.selectExpr(
        f"CAST({seq} AS bigint) AS seq",
        f"{_kind(op)} AS kind",
        f"CAST(id AS {agreed.ids}) AS id",
        f"CAST({context} AS {agreed.ids}) AS context",
        "CAST(condition AS string) AS condition",
        f"CAST({dialect} AS string) AS dialect",
    )
    owned = f"(context IS NOT NULL AND kind = '{SUBSCRIBE}')"
    key = f"CASE WHEN {owned} THEN context ELSE id END"
    frame, home = _by_place(frame, key, _place(key, owned, n_shards), places, owned)
    return frame.selectExpr("*", f"{home} AS {HOME}")


def _kind(op: str) -> str:
    """The kind of a profile's event; what is no op is refused by the filter, by its name."""
    others = ", ".join(f"'{kind}'" for kind in (MESSAGE, UPDATE, GRAPH, VALUES))
    known = f"coalesce({op}, '{SUBSCRIBE}')"
    return f"CASE WHEN {op} IN ({others}) THEN concat('op ', {op}) ELSE {known} END"


def _placed(profiles: DataFrame, agreed: Layout, n_shards: int) -> DataFrame:
    """With the shards that must see each: its home, or all if an id has several homes."""
    if n_shards == 1:
        return _events(profiles, agreed, {**_PROFILE, SHARD: "0"})
    homes = f"CASE WHEN kind = '{SUBSCRIBE}' THEN {HOME} END"
    frame = profiles.selectExpr(
        "*",
        f"coalesce(min({homes}) OVER (PARTITION BY id), {HOME}) AS _least",
        f"coalesce(max({homes}) OVER (PARTITION BY id), {HOME}) AS _most",
    )
    shards = f"CASE WHEN _least = _most THEN array(_least) ELSE {_all_shards(n_shards)} END"
    home = f"CASE WHEN _least = _most THEN _least ELSE {HOME} END"
    return _events(frame, agreed, {**_PROFILE, HOME: home, SHARD: f"explode({shards})"})


def _all_shards(n_shards: int) -> str:
    return f"sequence(0, {n_shards - 1})"


def _place(key: str, owned: str, n_shards: int) -> str:
    """The shard of a context, or of a profile without one."""
    return f"CAST(pmod(xxhash64({owned}, CAST({key} AS string)), {n_shards}) AS int)"


def _by_place(
    frame: DataFrame, key: str, home: str, places: DataFrame | None, owned: str = "true"
) -> tuple[DataFrame, str]:
    """With the places of contexts beside: the shard is that of the place, else ``home``."""
    if places is None:
        return frame, home
    keyed = frame.selectExpr("*", f"CASE WHEN {owned} THEN {key} END AS _key")
    return keyed.join(places, "_key", "left"), f"coalesce(_place, {home})"


def _require(frame: DataFrame, name: str, *columns: str) -> None:
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise InvalidValue(
            f"{name} need the columns {', '.join(columns)}; {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing among {', '.join(frame.columns)}"
        )


def _check_seq(frame: DataFrame, name: str) -> None:
    """A ``seq`` that had to be rounded would be another event's."""
    kind = frame.schema["seq"].dataType if "seq" in frame.columns else types.LongType()
    if not isinstance(kind, (*_INTEGERS, types.NullType)):
        raise InvalidValue(
            f"column 'seq' of {name} is {kind.simpleString()}; places in the sequence are "
            "integers: cast it to bigint, if that loses nothing"
        )


def _widest(kinds: list[types.DataType]) -> types.DataType:
    """What ids of several inputs fit into: a string if one of them is, and if there are none."""
    if not kinds or any(isinstance(kind, types.StringType) for kind in kinds):
        return types.StringType()
    return max(kinds, key=lambda kind: _INTEGERS.index(type(kind)))


def _id_type(frame: DataFrame, name: str, column: str) -> types.DataType:
    kind = frame.schema[column].dataType
    if not isinstance(kind, (*_INTEGERS, types.StringType)):
        raise InvalidValue(
            f"column {column!r} of {name} is {kind.simpleString()}; ids are strings or integers"
        )
    return kind
