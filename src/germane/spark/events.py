"""Three inputs -> one DataFrame of events, each with the shard that must see it.

A profile lives where its context does: a context's updates go to one shard, messages go to all.
A profile that came with contexts of several shards (subscribed anew with another context) is
known to all of them, so that each tells a duplicate as the filter would, and delivered by one:
its ``home``. Ids are carried as int64 if all of them are integers, else as strings.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window, types
from pyspark.sql import functions as fn

from germane.model import InvalidValue, Schema

MESSAGE, UPDATE, SUBSCRIBE, UNSUBSCRIBE = "message", "update", "subscribe", "unsubscribe"
VALUES = "values"
"""The kind of what contexts held before everything."""
PLACING = ("shard", "home", "wanders")
"""Where an event must be seen, who answers for it, and whether its id has several homes."""
FIELDS = (*PLACING, "seq", "kind", "id", "context", "condition", "removed")
"""Columns of events that are not attributes."""
_INTEGERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
_NUMBERS = (*_INTEGERS, types.FloatType, types.DoubleType, types.DecimalType)
_TIMES = (types.TimestampType, types.TimestampNTZType, types.DateType)


class Events(NamedTuple):
    """What shards get, and what callers get back."""

    frame: DataFrame
    schema: dict[str, str]  # attribute -> type
    ids: str  # the SQL type that ids are carried as
    message: types.DataType  # the caller's types of ids
    profile: types.DataType
    context: types.DataType


def merge(
    messages: DataFrame,
    profiles: DataFrame,
    contexts: DataFrame | None,
    updates: DataFrame | None,
    n_shards: int,
) -> Events:
    """Check the inputs, and bring them together."""
    _require(messages, "messages", "seq", "id")
    _require(profiles, "profiles", "id", "condition")
    inputs = {"messages": messages, "profiles": profiles}
    if contexts is not None:
        _require(contexts, "contexts", "id")
        inputs["contexts"] = contexts
    if updates is not None:
        _require(updates, "updates", "seq", "context")
        inputs["updates"] = updates
    for name in ("document", "address"):
        if name in messages.columns:
            raise InvalidValue(f"messages have a column {name!r}, which is not supported yet")
    schema = _schema(inputs)
    message, profile = _id_type(messages, "messages", "id"), _id_type(profiles, "profiles", "id")
    owners = [
        _id_type(frame, name, column)
        for frame, name, column in (
            (contexts, "contexts", "id"),
            (updates, "updates", "context"),
            (profiles if "context" in profiles.columns else None, "profiles", "context"),
        )
        if frame is not None
    ]
    texts: list[types.DataType] = [k for k in owners if isinstance(k, types.StringType)]
    context = (texts or owners or [types.StringType()])[0]
    kinds = (message, profile, *owners)
    ids = "bigint" if all(isinstance(kind, _INTEGERS) for kind in kinds) else "string"

    parts = [_of_messages(messages, ids, n_shards), _of_profiles(profiles, ids, n_shards)]
    if contexts is not None:
        parts.append(_of_contexts(contexts, VALUES, "id", ids, n_shards))
    if updates is not None:
        parts.append(_of_contexts(updates, UPDATE, "context", ids, n_shards))
    wanted = {name: _SPARK_TYPES[type_] for name, type_ in schema.items()}
    frame = parts[0].select(*_columns(parts[0], wanted))
    for part in parts[1:]:
        frame = frame.unionByName(part.select(*_columns(part, wanted)))
    return Events(frame, schema, ids, message, profile, context)


# attributes ------------------------------------------------------------------------------------

_SPARK_TYPES = {
    "number": "double", "string": "string", "boolean": "boolean", "timestamp": "timestamp",
}  # fmt: skip
_NOT_ATTRIBUTES = {
    "messages": {"seq", "id"},
    "contexts": {"id"},
    "updates": {"seq", "context", "removed"},
}


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


def _columns(part: DataFrame, wanted: dict[str, str]) -> list[Column]:
    """All columns of events, null where an input does not have them."""
    chosen = [fn.col(name) for name in FIELDS]
    for name, type_ in wanted.items():
        quoted = f"`{name.replace('`', '``')}`"
        there = name in part.columns
        chosen.append((fn.col(quoted) if there else fn.lit(None)).cast(type_).alias(name))
    return chosen


# inputs ----------------------------------------------------------------------------------------


def _of_messages(messages: DataFrame, ids: str, n_shards: int) -> DataFrame:
    return _event(
        messages,
        shard=fn.explode(fn.sequence(fn.lit(0), fn.lit(n_shards - 1))),
        home=fn.lit(0),
        seq=fn.col("seq").cast("bigint"),
        kind=fn.lit(MESSAGE),
        id=fn.col("id").cast(ids),
    )


def _of_contexts(frame: DataFrame, kind: str, column: str, ids: str, n_shards: int) -> DataFrame:
    """Updates, or values from before everything."""
    context = fn.col(column).cast(ids)
    home = _place(context, fn.lit(True), n_shards)
    is_update = kind == UPDATE
    removed = fn.col("removed") if is_update and "removed" in frame.columns else fn.lit(None)
    return _event(
        frame,
        shard=home,
        home=home,
        seq=(fn.col("seq") if is_update else fn.lit(None)).cast("bigint"),
        kind=fn.lit(kind),
        id=context,
        removed=removed.cast("array<string>"),
    )


def _of_profiles(profiles: DataFrame, ids: str, n_shards: int) -> DataFrame:
    id_ = fn.col("id").cast(ids)
    there = set(profiles.columns)
    context = (fn.col("context") if "context" in there else fn.lit(None)).cast(ids)
    seq = (fn.col("seq") if "seq" in there else fn.lit(None)).cast("bigint")
    kind = fn.coalesce(fn.col("op") if "op" in there else fn.lit(None), fn.lit(SUBSCRIBE))
    frame = profiles.select(
        seq.alias("seq"),
        kind.alias("kind"),
        id_.alias("id"),
        context.alias("context"),
        fn.col("condition").cast("string").alias("condition"),
    )
    owned = fn.col("context").isNotNull()
    own = _place(fn.coalesce("context", "id"), owned, n_shards)
    if n_shards == 1:
        places = frame.select("*", fn.lit(0).alias("shard"), fn.lit(0).alias("home"))
        places = places.withColumn("wanders", fn.lit(False))
    else:
        # Where all subscriptions of an id have their home: one place, or everywhere.
        of_id = Window.partitionBy("id")
        homes = fn.when(fn.col("kind") == SUBSCRIBE, own)
        somewhere = _place(fn.col("id"), fn.lit(False), n_shards)
        least, most = fn.min(homes).over(of_id), fn.max(homes).over(of_id)
        everywhere = fn.sequence(fn.lit(0), fn.lit(n_shards - 1))
        places = (
            frame.withColumn("own", homes)
            .withColumn("least", fn.coalesce(least, somewhere))
            .withColumn("most", fn.coalesce(most, somewhere))
        )
        places = places.withColumn("wanders", fn.col("least") != fn.col("most"))
        shards = fn.when(fn.col("wanders"), everywhere).otherwise(fn.array("least"))
        places = places.withColumn("home", fn.coalesce("own", "least")).withColumn(
            "shard", fn.explode(shards)
        )
    return places.withColumn("removed", fn.lit(None).cast("array<string>"))


def _event(frame: DataFrame, **fields: Column) -> DataFrame:
    """An input's attributes, with the fields of events beside."""
    missing = {
        "wanders": fn.lit(False),
        "context": fn.lit(None).cast("string"),
        "condition": fn.lit(None).cast("string"),
        "removed": fn.lit(None).cast("array<string>"),
    }
    kept = [name for name in frame.columns if name not in FIELDS]
    quoted = [fn.col(f"`{name.replace('`', '``')}`") for name in kept]
    added = {**missing, **fields}
    return frame.select(*quoted, *[column.alias(name) for name, column in added.items()])


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
