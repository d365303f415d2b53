"""The current values of all contexts, out of the store and into an Arrow table."""

from typing import TYPE_CHECKING, Any

import numpy as np

from germane.model.types import CATEGORY

if TYPE_CHECKING:
    from germane.filter.filter import Filter


def contexts_table(f: "Filter") -> Any:
    """Columns ``id`` and one an attribute, null where a context has no value."""
    import pyarrow as pa

    f._follow_strings()
    store = f._contexts
    rows = np.arange(store.ids.n_rows, dtype=np.int32)
    columns = {"id": store.ids.column(rows) if len(rows) else pa.array([], pa.string())}
    for name, slots in store.slots.items():
        keys = [store.values[slot, : len(rows)] for slot in slots]
        columns[name] = _column(f, f._schema.type_of(name), keys)
    return pa.table(columns)


def _column(f: "Filter", type_: str | None, keys: list[Any]) -> Any:
    import pyarrow as pa

    first = keys[0]
    missing = np.isnan(first)
    if type_ == "location":
        pairs = np.stack(keys[:2], axis=1).ravel()
        return pa.FixedSizeListArray.from_arrays(pa.array(pairs), 2, mask=pa.array(missing))
    if type_ == "string":
        labels, at = np.unique(first[~missing], return_inverse=True)
        texts = pa.array([f._strings.text(label) for label in labels.tolist()], pa.string())
        places = np.full(len(first), -1, np.int64)
        places[~missing] = at
        return texts.take(pa.array(places, mask=missing))
    if type_ is not None and type_.startswith(CATEGORY):
        names = [f._categories.names(type_, key) or None for key in first.tolist()]
        return pa.array(names, pa.list_(pa.string()))
    if type_ == "boolean":
        return pa.array(first == 1.0, pa.bool_(), mask=missing)
    if type_ == "timestamp":
        whole = np.where(missing, 0.0, first).astype(np.int64)
        return pa.array(whole, pa.int64(), mask=missing).cast(pa.timestamp("us", "UTC"))
    return pa.array(first, pa.float64(), mask=missing)
