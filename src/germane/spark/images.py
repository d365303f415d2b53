"""A shard's filter as a file beside its snapshot, indexes included: a shortcut, never the truth.

A worker that knows nothing of a shard would register its profiles again. When a snapshot is
written, so is the filter itself, under the checkpoint; a worker that finds the image of just that
snapshot loads it and plays the deltas since. The name of the file says which shard, version and
word; another attempt's image has another word. No image, a damaged one, or one of another version
of the index: profiles are registered again, from the snapshot in the state store.
"""

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from germane.filter import Filter
from germane.model import GermaneError

LAST = 2
"""Images of a shard that stay: an attempt that fails goes back to the one before its own."""


def file_system(path: str) -> tuple[Any, str]:
    """The file system of a path or a URL, and the path in it."""
    if path.startswith("file:"):
        return pafs.LocalFileSystem(), "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        found: tuple[Any, str] = pafs.FileSystem.from_uri(path)
        return found
    return pafs.LocalFileSystem(), path


def save(f: Filter, files: Any, place: str) -> None:
    """Write a filter to any file system, all of it or nothing."""
    files.create_dir(place.rsplit("/", 1)[0], recursive=True)
    if isinstance(files, pafs.LocalFileSystem):
        f.save(place)
        return
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "filter"
        f.save(local)
        with files.open_output_stream(f"{place}.part") as out:
            out.write(local.read_bytes())
    files.move(f"{place}.part", place)


def load(files: Any, place: str) -> Filter:
    """Read what ``save`` wrote."""
    if isinstance(files, pafs.LocalFileSystem):
        return Filter.load(place)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "filter"
        with files.open_input_stream(place) as stream:
            local.write_bytes(stream.read())
        return Filter.load(local)


class Images:
    """The images of a stream's shards, in one directory; none of its calls fails."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def keep(self, f: Filter, shard: int, version: int, word: str) -> None:
        """Write the image of a snapshot; only the last ones of a shard stay."""
        if self._path is None:
            return
        with suppress(OSError, pa.ArrowException, GermaneError):
            files, folder = file_system(self._path)
            save(f, files, f"{folder}/{shard}/{version:020}-{word}")
            known = files.get_file_info(pafs.FileSelector(f"{folder}/{shard}"))
            for old in sorted(info.path for info in known)[:-LAST]:
                files.delete_file(old)

    def find(self, shard: int, version: int, word: str) -> Filter | None:
        """The filter of a snapshot, if its image is there and whole."""
        if self._path is None:
            return None
        with suppress(OSError, pa.ArrowException, GermaneError):
            files, folder = file_system(self._path)
            return load(files, f"{folder}/{shard}/{version:020}-{word}")
        return None
