"""A filter in one file: arrays as they are, everything else as JSON; no pickles.

Written beside the target and renamed, so that a reader sees the old file or the new one. Loading
reads arrays straight into place: indexes are not built again.
"""

import json
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from germane.approx.transformations import Transformations
from germane.category.covers import nodes_named
from germane.category.sets import Categories
from germane.context import Strings
from germane.filter.balance import Plan
from germane.index.blocks import BlockIndex
from germane.index.conjunctions import Conjunctions
from germane.index.lists import ListIndex
from germane.index.policy import Fixed, as_policy
from germane.kernels.layout import require_alike
from germane.model import InvalidValue, Schema

if TYPE_CHECKING:
    from germane.filter.filter import Filter

FORMAT = "germane-filter-1"
DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, OSError, RuntimeError,
    TypeError, ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a file that is no saved filter, or is damaged, may raise."""


def save(f: "Filter", path: Path) -> None:
    """Write a filter."""
    f._tables.follow_graphs()  # what is loaded takes them to be followed
    arrays: dict[str, NDArray[Any]] = {}
    meta: dict[str, Any] = {
        "format": FORMAT,
        "index": f._index.name,
        "policy": f._policy.n if isinstance(f._policy, Fixed) else type(f._policy).__name__.lower(),
        "structure": f._structure,
        "schema": f._schema.state(),
        "strings": f._strings.state(),
        "messages": f._messages.slots,
        "casts": [[*cast, slot] for cast, slot in f._messages.casts.items()],
        "n_updates": f._n_updates,
        "n_matches": f._n_matches,
        "last_seq": f._last_seq,
        "texts": f._texts.keys,
        "categories": f._categories.state(arrays),
        "documents": f._documents.state(),
        "own": [[profile, own.as_dict()] for profile, own in f._own.items()],
        "first_own": [[profile, own.as_dict()] for profile, own in f._first_own.items()],
        "contexts": {"slots": f._contexts.slots, "version": f._contexts.version},
    }
    for name, ids in (("profiles", f._profiles.ids), ("contexts", f._contexts.ids)):
        state = ids.state()
        if "keys" in state:
            arrays[f"ids_{name}"] = state["keys"]
        else:
            meta[f"ids_{name}"] = state["names"]
    n = f._contexts.ids.n_rows
    k = f._contexts.n_slots
    arrays["profile_head"] = f._profiles.head[: f._profiles.ids.n_rows]
    arrays["context_head"] = f._contexts.head[:n]
    arrays["values"] = f._contexts.values[:k, :n]
    arrays["guards"] = f._contexts.guards[:k, :n]
    for name in ("origin", "scale", "watched"):
        arrays[name] = getattr(f._contexts, name)[:k]
    conjunctions = f._conjunctions.state()
    meta["conjunctions"] = conjunctions.pop("meta")
    arrays |= {f"conjunctions_{name}": array for name, array in conjunctions.items()}
    _save_tables(f, arrays, meta)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            np.savez(file, **cast(Any, arrays))
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _save_tables(f: "Filter", arrays: dict[str, Any], meta: dict[str, Any]) -> None:
    tables = f._tables
    for name in ("state", "table", "outside"):
        arrays[f"tables_{name}"] = getattr(tables, name)
    arrays["tables_recent_updates"] = tables.recent.updates
    meta["tables"] = {
        "list": [
            {
                "attributes": table.attributes.tolist(),
                "required": table.required.tolist(),
                "n_inside": table.n_inside,
                "n_waiting": table.n_waiting,
                "n_expelled": table.n_expelled,
                "builds": table.builds,
                "is_merged": table.is_merged,
                "n_points": table.n_points,
                "swept": table.balance.swept,
                "loose": sorted(table.balance.plan.loose),
                "selectivity": table.balance.selectivity.tolist(),
                "build_ns": table.build_ns,
                "context_slots": sorted(table.context_slots),
            }
            for table in tables.tables
        ],
        "table_of_shape": tables.assignment.table_of_shape,
        "whole_shape": tables.assignment.whole_shape,
        "bound_shape": tables.assignment.bound_shape,
        "wake_slots": sorted(tables.assignment.wake_slots),
        "n_outside": tables.n_outside,
        "recent_false": tables.recent.false,
        "recent_messages": tables.recent.messages,
        "deescalations": tables.deescalations,
        "n_postfiltered": tables.n_postfiltered,
        "n_swept": tables.n_swept,
        "n_messages": tables.recent.n_messages,
        "n_candidates": tables.n_candidates,
        "n_false": tables.n_false,
    }
    for number, table in enumerate(tables.tables):
        arrays[f"table{number}_points"] = table.points
        if table.index is not None:
            state = table.index.state()
            arrays |= {f"table{number}_index_{name}": array for name, array in state.items()}


def load(kind: "type[Filter]", path: Path) -> "Filter":
    """Read a filter."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes())
        if meta["format"] != FORMAT:
            raise InvalidValue(f"it has the format {meta['format']!r}, not {FORMAT!r}")
        return _restore(kind, arrays, meta)
    except DAMAGE as error:
        if isinstance(error, FileNotFoundError):
            raise
        about = f"{error!r}" if isinstance(error, KeyError) else f"{error}"
        raise InvalidValue(f"{str(path)!r} is not a saved filter: {about}") from error


def _restore(kind: "type[Filter]", arrays: dict[str, Any], meta: dict[str, Any]) -> "Filter":
    policy = meta["policy"]
    f = kind(
        index=meta["index"],
        policy=Fixed(policy) if isinstance(policy, int) else as_policy(policy),
        structure=meta["structure"],
    )
    f._schema = Schema.from_state(meta["schema"])
    f._categories = Categories.from_state(meta["categories"], arrays)
    f._categories.teach(f._schema)
    f._strings = Strings.from_state(meta["strings"])
    f._transformations = Transformations.from_dict(meta["documents"]["general"])
    f._wire()
    f._documents.restore(meta["documents"])
    f._own = {profile: Transformations.from_dict(own) for profile, own in meta["own"]}
    first = meta["first_own"]
    f._first_own = {profile: Transformations.from_dict(own) for profile, own in first}
    f._messages.slots = {name: tuple(slots) for name, slots in meta["messages"].items()}
    f._messages.casts = {(name, type_): slot for name, type_, slot in meta.get("casts", ())}
    n_slots = sum(len(slots) for slots in f._messages.slots.values())
    f._messages.n_slots = n_slots + len(f._messages.casts)
    for text in meta["texts"]:
        f._texts.number(tuple(text))
    f._n_updates, f._n_matches = meta["n_updates"], meta["n_matches"]
    f._last_seq = meta["last_seq"]
    for name, ids in (("profiles", f._profiles.ids), ("contexts", f._contexts.ids)):
        if f"ids_{name}" in arrays:
            require_alike(arrays, {f"ids_{name}": ids.state()["keys"]})
            ids.restore({"keys": arrays[f"ids_{name}"]})
        else:
            ids.restore({"names": meta[f"ids_{name}"]})
    require_alike(arrays, {"profile_head": f._profiles.head})
    f._profiles.head = arrays["profile_head"]
    _load_contexts(f, arrays, meta["contexts"])
    states = {
        name.removeprefix("conjunctions_"): array
        for name, array in arrays.items()
        if name.startswith("conjunctions_")
    }
    _replace(f, Conjunctions.from_state(states | {"meta": meta["conjunctions"]}))
    _load_tables(f, arrays, meta["tables"])
    f._documents.hold(nodes_named(f._conjunctions, f._categories.flat).keys)
    return f


def _load_contexts(f: "Filter", arrays: dict[str, Any], meta: dict[str, Any]) -> None:
    contexts = f._contexts
    contexts.slots = {name: tuple(slots) for name, slots in meta["slots"].items()}
    contexts.version = meta["version"]
    names = ("values", "guards", "origin", "scale", "watched")
    require_alike(arrays, {name: getattr(contexts, name) for name in names})
    require_alike(arrays, {"context_head": contexts.head})
    for name in names:
        setattr(contexts, name, arrays[name])
    contexts.n_slots = contexts.values.shape[0]
    contexts.head = arrays["context_head"]


def _replace(f: "Filter", conjunctions: Conjunctions) -> None:
    f._conjunctions = f._tables.conjunctions = f._profiles.conjunctions = conjunctions
    f._tables.assignment.conjunctions = conjunctions
    f._tables.postings.conjunctions = conjunctions
    f._tables.intervals.conjunctions = conjunctions


def _load_tables(f: "Filter", arrays: dict[str, Any], meta: dict[str, Any]) -> None:
    tables = f._tables
    for name in ("state", "table", "outside"):
        require_alike(arrays, {f"tables_{name}": getattr(tables, name)})
        setattr(tables, name, arrays[f"tables_{name}"])
    updates = arrays["tables_recent_updates"]
    require_alike(arrays, {"tables_recent_updates": tables.recent.updates})
    tables.recent.restore(
        meta["n_messages"], updates, meta["recent_false"], meta["recent_messages"]
    )
    for name in (
        "n_outside", "deescalations", "n_postfiltered", "n_swept", "n_candidates", "n_false",
    ):  # fmt: skip
        setattr(tables, name, meta[name])
    assignment = tables.assignment
    assignment.table_of_shape = list(meta["table_of_shape"])
    assignment.whole_shape = list(meta["whole_shape"])
    assignment.bound_shape = list(meta["bound_shape"])
    assignment.wake_slots = set(meta["wake_slots"])
    tables._any_plan = any(about["swept"] or about["loose"] for about in meta["list"])
    for number, about in enumerate(meta["list"]):
        table = assignment.add_table(tuple(about["attributes"]))
        table.required = np.array(about["required"], np.int32)
        for name in (
            "n_inside", "n_waiting", "n_expelled", "builds", "n_points", "build_ns", "is_merged",
        ):  # fmt: skip
            setattr(table, name, about[name])
        table.balance.plan = Plan(about["swept"], frozenset(about["loose"]))
        table.balance.selectivity = np.array(about["selectivity"])
        table.context_slots = set(about["context_slots"])
        require_alike(arrays, {f"table{number}_points": table.points})
        table.points = arrays[f"table{number}_points"]
        prefix = f"table{number}_index_"
        state = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        if state:
            require_alike(state, {"attributes": table.attributes})
            index = BlockIndex if f._structure == "blocks" else ListIndex
            table.index = index.from_state(state)
        assignment.loosen(table)
    tables.restore_posted()
    tables.reserve_buffers()
