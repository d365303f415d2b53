"""Inputs -> one DataFrame of events, each with the shards that must see it.

A profile lives where its context does: a context's updates go to one shard, messages go to all.
A profile may come back with a context of another shard, so other shards may have to know of it:
``home`` is the one that registers it, or answers for an event that nobody takes. Ids are carried
as int64 if all of them are integers, else as strings.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window, types
from pyspark.sql import functions as fn

from germane.filter.events import MESSAGE, SUBSCRIBE, UPDATE
from germane.model import InvalidValue, Schema
from germane.spark.layout import FIELDS, HOME, SHARD, VALUES, Layout
from germane.spark.sessions import is_remote

MOST_SHARDS = 100_000
_INTEGERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
_NUMBERS = (*_INTEGERS, types.FloatType, types.DoubleType, types.DecimalType)
_TIMES = (types.TimestampType, types.TimestampNTZType, types.DateType)
_SPARK_TYPES = {
    "number": "double", "string": "string", "boolean": "boolean", "timestamp": "timestamp",
}  # fmt: skip
_REQUIRED = {
    "messages": ("seq", "id"),
    "profiles": ("id", "condition"),
    "contexts": ("id",),
    "updates": ("seq", "context"),
}
_NOT_ATTRIBUTES = {
    "messages": {"seq", "id"},
    "contexts": {"id"},
    "updates": {"seq", "context", "removed"},
}


class Inputs(NamedTuple):
    """What a caller brings."""

    messages: DataFrame
    profiles: DataFrame
    contexts: DataFrame | None = None
    updates: DataFrame | None = None

    def there(self) -> dict[str, DataFrame]:
        """The inputs that were given, by name."""
        return {name: frame for name, frame in self._asdict().items() if frame is not None}

    @property
    def session(self) -> SparkSession:
        """The session of the inputs."""
        return self.messages.sparkSession


def layout(inputs: Inputs) -> Layout:
    """Check the inputs: their columns, their types, their ids."""
    for name, frame in inputs.there().items():
        _require(frame, name, *_REQUIRED[name])
    for name in ("document", "address"):
        if name in inputs.messages.columns:
            raise InvalidValue(f"messages have a column {name!r}, which is not supported yet")
    message = _id_type(inputs.messages, "messages", "id")
    profile = _id_type(inputs.profiles, "profiles", "id")
    owners = [
        _id_type(frame, name, column)
        for frame, name, column in (
            (inputs.contexts, "contexts", "id"),
            (inputs.updates, "updates", "context"),
            (inputs.profiles, "profiles", "context"),
        )
        if frame is not None and column in frame.columns
    ]
    texts: list[types.DataType] = [k for k in owners if isinstance(k, types.StringType)]
    context = (texts or owners or [types.StringType()])[0]
    kinds = (message, profile, *owners)
    ids = "bigint" if all(isinstance(kind, _INTEGERS) for kind in kinds) else "string"
    names = [kind.simpleString() for kind in (message, profile, context)]
    return Layout(_schema(inputs.there()), ids, *names)


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
    messages = _of_messages(inputs.messages, agreed.ids)
    everyone = fn.explode(_all_shards(n_shards))
    parts = [
        messages.withColumn(SHARD, everyone),
        _placed(_of_profiles(inputs.profiles, agreed.ids, n_shards), n_shards),
    ]
    if inputs.contexts is not None:
        parts.append(_of_contexts(inputs.contexts, VALUES, "id", agreed.ids, n_shards))
    if inputs.updates is not None:
        parts.append(_of_contexts(inputs.updates, UPDATE, "context", agreed.ids, n_shards))
    return _union(parts, agreed)


def merge_stream(inputs: Inputs, agreed: Layout, n_shards: int) -> DataFrame:
    """The streaming inputs, an event a row: who must see it is seen by its kind."""
    parts = [_of_messages(inputs.messages, agreed.ids)]
    if inputs.profiles.isStreaming:
        parts.append(_of_profiles(inputs.profiles, agreed.ids, n_shards))
    if inputs.updates is not None:
        parts.append(_of_contexts(inputs.updates, UPDATE, "context", agreed.ids, n_shards))
    return _union(parts, agreed)


def merge_before(inputs: Inputs, agreed: Layout, n_shards: int) -> DataFrame | None:
    """What a stream starts from: the inputs that are no streams."""
    parts = []
    if not inputs.profiles.isStreaming:
        profiles = _of_profiles(inputs.profiles, agreed.ids, n_shards)
        parts.append(_placed(profiles, n_shards))
    if inputs.contexts is not None:
        parts.append(_of_contexts(inputs.contexts, VALUES, "id", agreed.ids, n_shards))
    return _union(parts, agreed) if parts else None


def merge_resumed(events: DataFrame, agreed: Layout, n_shards: int, tell_all: bool) -> DataFrame:
    """Another stream's state, as events from before everything, dealt out anew.

    ``tell_all``: profiles may come and go, so that all shards must know who is there.
    """
    is_profile = fn.col("kind") == SUBSCRIBE
    key = fn.when(is_profile & fn.col("context").isNotNull(), fn.col("context"))
    owned = ~is_profile | fn.col("context").isNotNull()
    home = _place(fn.coalesce(key, fn.col("id")), owned, n_shards)
    shard = fn.when(is_profile, fn.lit(None)).otherwise(fn.col(HOME)) if tell_all else fn.col(HOME)
    return _union([events.withColumn(HOME, home).withColumn(SHARD, shard)], agreed)


def event_columns(agreed: Layout) -> dict[str, str]:
    """The columns of events, and their SQL types."""
    return {
        SHARD: "int", HOME: "int", "seq": "bigint", "kind": "string", "id": agreed.ids,
        "context": agreed.ids, "condition": "string", "removed": "array<string>",
        **{name: _SPARK_TYPES[type_] for name, type_ in agreed.schema.items()},
    }  # fmt: skip


def quoted(name: str) -> Column:
    """A column of any name."""
    return fn.col(f"`{name.replace('`', '``')}`")


# attributes ------------------------------------------------------------------------------------


def _schema(inputs: dict[str, DataFrame]) -> dict[str, str]:
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
            if name in FIELDS:
                raise InvalidValue(
                    f"an attribute cannot be called {name!r}: {input_} have a column of that name, "
                    "which events use themselves; rename it"
                )
            type_ = _attribute_type(input_, field)
            if schema.setdefault(name, type_) != type_:
                raise InvalidValue(
                    f"attribute {name!r} is a {schema[name]} in {told[name]} but a {type_} in "
                    f"{input_}; cast one of them"
                )
            told.setdefault(name, input_)
    Schema(schema)  # refuses names that conditions could not say
    return schema


def _attribute_type(input_: str, field: types.StructField) -> str:
    kind = field.dataType
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
        "strings, booleans or timestamps"
    )


def _union(parts: list[DataFrame], agreed: Layout) -> DataFrame:
    """Events of all parts, null where a part does not have a column."""
    kinds = event_columns(agreed)
    frame: DataFrame | None = None
    for part in parts:
        chosen = part.select(
            *[
                (quoted(name) if name in part.columns else fn.lit(None)).cast(kind).alias(name)
                for name, kind in kinds.items()
            ]
        )
        frame = chosen if frame is None else frame.unionByName(chosen)
    assert frame is not None
    return frame


# inputs ----------------------------------------------------------------------------------------


def _of_messages(messages: DataFrame, ids: str) -> DataFrame:
    return _event(
        messages,
        **{HOME: fn.lit(0), "seq": fn.col("seq"), "kind": fn.lit(MESSAGE), "id": fn.col("id")},
    )


def _of_contexts(frame: DataFrame, kind: str, column: str, ids: str, n_shards: int) -> DataFrame:
    """Updates, or values from before everything."""
    home = _place(fn.col(column).cast(ids), fn.lit(True), n_shards)
    fields = {SHARD: home, HOME: home, "kind": fn.lit(kind), "id": fn.col(column)}
    for name in ("seq", "removed"):
        if kind == UPDATE and name in frame.columns:
            fields[name] = fn.col(name)
    return _event(frame, **fields)


def _of_profiles(profiles: DataFrame, ids: str, n_shards: int) -> DataFrame:
    """Subscriptions, which live where their context does, and unsubscriptions."""
    there = set(profiles.columns)
    kind = fn.coalesce(fn.col("op") if "op" in there else fn.lit(None), fn.lit(SUBSCRIBE))
    context = fn.col("context") if "context" in there else fn.lit(None)
    frame = profiles.select(
        (fn.col("seq") if "seq" in there else fn.lit(None)).cast("bigint").alias("seq"),
        kind.alias("kind"),
        fn.col("id").cast(ids).alias("id"),
        context.cast(ids).alias("context"),
        fn.col("condition").cast("string").alias("condition"),
    )
    owned = fn.col("context").isNotNull() & (fn.col("kind") == SUBSCRIBE)
    key = fn.when(owned, fn.col("context")).otherwise(fn.col("id"))
    return frame.withColumn(HOME, _place(key, owned, n_shards))


def _placed(profiles: DataFrame, n_shards: int) -> DataFrame:
    """With the shards that must see each: its home, or all if an id has several homes."""
    if n_shards == 1:
        return profiles.withColumn(SHARD, fn.lit(0))
    of_id = Window.partitionBy("id")
    homes = fn.when(fn.col("kind") == SUBSCRIBE, fn.col(HOME))
    frame = profiles.withColumn(
        "_least", fn.coalesce(fn.min(homes).over(of_id), fn.col(HOME))
    ).withColumn("_most", fn.coalesce(fn.max(homes).over(of_id), fn.col(HOME)))
    settled = fn.col("_least") == fn.col("_most")
    shards = fn.when(settled, fn.array("_least")).otherwise(_all_shards(n_shards))
    home = fn.when(settled, fn.col("_least")).otherwise(fn.col(HOME))
    return frame.withColumn(HOME, home).withColumn(SHARD, fn.explode(shards))


def _event(frame: DataFrame, **fields: Column) -> DataFrame:
    """An input's attributes, with the fields of events beside."""
    kept = [quoted(name) for name in frame.columns if name not in FIELDS]
    return frame.select(*kept, *[column.alias(name) for name, column in fields.items()])


def _all_shards(n_shards: int) -> Column:
    return fn.sequence(fn.lit(0), fn.lit(n_shards - 1))


def _place(key: Column, owned: Column, n_shards: int) -> Column:
    """The shard of a context, or of a profile without one."""
    return fn.pmod(fn.xxhash64(owned, key.cast("string")), fn.lit(n_shards)).cast("int")


def _require(frame: DataFrame, name: str, *columns: str) -> None:
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise InvalidValue(
            f"{name} need the columns {', '.join(columns)}; {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing among {', '.join(frame.columns)}"
        )


def _id_type(frame: DataFrame, name: str, column: str) -> types.DataType:
    kind = frame.schema[column].dataType
    if not isinstance(kind, (*_INTEGERS, types.StringType)):
        raise InvalidValue(
            f"column {column!r} of {name} is {kind.simpleString()}; ids are strings or integers"
        )
    return kind
