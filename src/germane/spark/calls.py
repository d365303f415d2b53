"""Calls of DataFrames whose arguments the JVM has already.

For every call PySpark makes its columns, the list of them and the Python function anew in the JVM,
and lets go of them again: seventy calls for a batch job, half of the driver's time for it. What a
job says is the same every time, so here it is said once, and kept for as long as Spark runs.

Spark Connect has no JVM at hand and sends a plan as a whole: there these are the calls themselves.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, functions, types
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

from germane.spark.sessions import is_remote

MOST_KEPT = 256
_LOCK = Lock()  # threads may share a session, and a dictionary is not made for that
Kept = OrderedDict[Hashable, Any]
KEPT: WeakKeyDictionary[Any, Kept] = WeakKeyDictionary()
"""Objects of the JVM by what they say, the last used last; of each Spark context."""


def select(frame: DataFrame, *texts: str) -> DataFrame:
    """As ``frame.selectExpr``."""
    if is_remote(frame.sparkSession):
        return frame.selectExpr(*texts)
    return _as_frame(frame, frame._jdf.select(_columns(frame, texts)))


def repartition(frame: DataFrame, n: int, text: str) -> DataFrame:
    """As ``frame.repartition``, by one column."""
    if is_remote(frame.sparkSession):
        return frame.repartition(n, text)
    return _as_frame(frame, frame._jdf.repartition(n, _columns(frame, (text,))))


def map_in_arrow(
    frame: DataFrame,
    column: str,
    function: Callable[..., Any],
    schema: types.StructType,
    says: Hashable,
) -> DataFrame:
    """As ``frame.mapInArrow``, of its only column; functions that say the same must do the same."""
    if is_remote(frame.sparkSession):
        return frame.mapInArrow(function, schema)

    def make() -> Any:
        kind: Any = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        udf: Any = pandas_udf(function, returnType=schema, functionType=kind)
        return udf(functions.col(column))._jc

    # Modules that were added to Spark since would not travel with a function of before.
    added = tuple(frame.sparkSession.sparkContext._python_includes or ())
    called = _kept(frame, (says, column, schema, added), make)
    return _as_frame(frame, frame._jdf.mapInArrow(called, False, None))


def _columns(frame: DataFrame, texts: tuple[str, ...]) -> Any:
    def make() -> Any:
        from pyspark.sql.classic.column import _to_java_column, _to_seq

        columns = [functions.expr(text) for text in texts]
        return _to_seq(frame.sparkSession.sparkContext, columns, _to_java_column)

    return _kept(frame, texts, make)


def _kept(frame: DataFrame, says: Hashable, make: Callable[[], Any]) -> Any:
    with _LOCK:
        kept = KEPT.setdefault(frame.sparkSession.sparkContext, OrderedDict())
        made = kept.get(says)
        if made is None:
            made = kept[says] = make()
        kept.move_to_end(says)
        if len(kept) > MOST_KEPT:
            kept.popitem(last=False)
    return made


def _as_frame(frame: DataFrame, java: Any) -> DataFrame:
    return DataFrame(java, frame.sparkSession)
