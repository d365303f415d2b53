"""What shards tell of their groups to whoever routes: small files, one for each change.

A notice is some arrays, named by who tells and in which micro-batch. Whoever routes micro-batch n
reads the last notice before n of each shard. A micro-batch that is repeated reads what it read the
first time, and writes what it wrote the first time; so nothing here need be undone. Of each, the
last few stay. A notice that cannot be read is as good as none: then everything goes to that shard.
"""

import io
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
from numpy.typing import NDArray

from germane.spark.images import file_system

LAST = 4
"""Notices of each that stay."""
Arrays = dict[str, NDArray[Any]]


class Notice(NamedTuple):
    """Who told it is in the name; the micro-batch after which it is true, and what is."""

    batch: int
    arrays: Arrays


class Notices:
    """A folder of notices."""

    def __init__(self, folder: str, name: str = "notices") -> None:
        self._files, place = file_system(folder)
        self._folder = f"{place}/{name}"
        self._known: dict[str, list[tuple[int, str]]] | None = None

    def latest(self, who: str, before: int) -> Notice | None:
        """What somebody told last before a micro-batch."""
        known = [(batch, path) for batch, path in self._list().get(who, []) if batch < before]
        if not known:
            return None
        batch, path = max(known)
        try:
            with self._files.open_input_stream(path) as stream:
                data = stream.read()
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                return Notice(batch, dict(arrays))
        except (OSError, ValueError, EOFError, KeyError, BadZipFile, pa.ArrowException):
            return None

    def write(self, who: str, batch: int, arrays: Arrays) -> None:
        """Tell something, all of it or nothing."""
        data = io.BytesIO()
        np.savez(data, **arrays)  # type: ignore[arg-type]
        self._files.create_dir(self._folder, recursive=True)
        path = f"{self._folder}/{who}-{batch:012}"
        part = f"{path}.{uuid4().hex}.part"  # two attempts may write at the same time
        with self._files.open_output_stream(part) as out:
            out.write(data.getvalue())
        self._files.move(part, path)
        self._known = None
        old = sorted(at for at in self._list().get(who, []) if at[0] <= batch)[:-LAST]
        for _, gone in old:
            with suppress(OSError):  # another attempt may have been quicker
                self._files.delete_file(gone)

    def _list(self) -> dict[str, list[tuple[int, str]]]:
        if self._known is None:
            self._known = {}
            chosen = pafs.FileSelector(self._folder, allow_not_found=True)
            for info in self._files.get_file_info(chosen):
                who, _, batch = info.base_name.rpartition("-")
                if batch.isdigit():
                    self._known.setdefault(who, []).append((int(batch), info.path))
        return self._known


def name_of(shard: int) -> str:
    """As whom a shard tells."""
    return f"shard{shard}"
