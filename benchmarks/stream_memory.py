"""Memory of a batch: a million messages stream out in chunks of a bounded size.

    python -m benchmarks.stream_memory --profiles 500000 --messages 1000000

A fresh process loads a filter of RQ-U and gives all messages to `match_chunks` at once, under
`Batching(max_bytes=…)`. What is measured is the peak of resident memory above what the process
held with the filter loaded, warm, and the messages in hand; beside it stands what all matches
would take. Answers of the first messages are compared with `match_rows`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from . import record
from .memory import asked, parameters_of, resident_bytes, spawn
from .rounds import Bar, console, show_bars

MATCH_BYTES = 4  # a profile row is an int32
WITHIN = 2.0  # one chunk in the caller's hands while the next is made
N_CHECKED = 200
MEBIBYTE = 2**20


def forget_peak() -> None:
    """Let the peak start from here, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The peak of resident memory since the start or since `forget_peak`."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child_build(chosen: Any) -> dict[str, Any]:
    """Register and save, in a process of its own, so that its memory is not counted."""
    from . import engine
    from .streams import ranges

    work = ranges("RQ-U", chosen.profiles, chosen.seed)
    engine.static_filter(work, **engine.options("agile")).save(Path(chosen.path))
    return {}


def child_stream(chosen: Any) -> dict[str, Any]:
    """Load, take all messages, and let the chunks go by."""
    import germane

    from . import engine
    from .speed import digest_of
    from .workloads import rq

    f = germane.Filter.load(Path(chosen.path))
    max_bytes = chosen.max_mib * MEBIBYTE
    f.batching = germane.Batching(max_bytes=max_bytes)
    vectors = engine.arrange(f, rq(1, chosen.seed).messages(chosen.messages))  # uniform, as RQ-U's
    f.match_many(vectors[: min(1_000, len(vectors))])
    wanted = digest_of([f.match_rows(vector) for vector in vectors[:N_CHECKED]])
    before = resident_bytes()
    forget_peak()
    first: list[Any] = []
    n_chunks, n_messages, n_matches, largest = 0, 0, 0, 0
    start = time.perf_counter()
    for chunk in f.match_chunks(vectors):
        if len(first) < N_CHECKED:
            more = min(chunk.n_messages, N_CHECKED - len(first))
            first += [chunk.rows(i).copy() for i in range(more)]
        n_chunks += 1
        n_messages += chunk.n_messages
        n_matches += len(chunk)
        largest = max(largest, len(chunk))
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "resident_before": before,
        "peak_growth": max(0, peak_bytes() - before),
        "message_bytes": vectors.nbytes,
        "chunks": n_chunks,
        "messages": n_messages,
        "matches": n_matches,
        "largest_chunk_bytes": largest * MATCH_BYTES,
        "answers_agree": digest_of(first) == wanted and n_messages == len(vectors),
    }


CHILDREN = {"build": child_build, "stream": child_stream}


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=500_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--max-mib", type=int, default=256, help="the setting: MiB of matches")
    parser.add_argument("--seed", type=int, default=1)
    chosen = asked(parser, CHILDREN, arguments)
    if chosen is None:
        return 0

    with tempfile.TemporaryDirectory(prefix="germane-bench-") as folder:
        path = Path(folder) / "saved.germane"
        spawn("build", chosen, path, "stream_memory")
        seen = spawn("stream", chosen, path, "stream_memory")
    rows = {
        "messages": f"{seen['messages']:,} in {seen['seconds']:.1f} s",
        "matches a message": f"{seen['matches'] / max(1, seen['messages']):,.1f}",
        "all matches": f"{seen['matches'] * MATCH_BYTES / MEBIBYTE:,.0f} MiB",
        "chunks": f"{seen['chunks']:,}",
        "largest chunk": f"{seen['largest_chunk_bytes'] / MEBIBYTE:,.1f} MiB of matches",
        "messages in hand": f"{seen['message_bytes'] / MEBIBYTE:,.0f} MiB",
        "resident before": f"{seen['resident_before'] / MEBIBYTE:,.0f} MiB",
        "peak above that": f"{seen['peak_growth'] / MEBIBYTE:,.0f} MiB",
        "answers": "agree" if seen["answers_agree"] else "[red]differ[/red]",
    }
    title = f"RQ-U, {chosen.profiles:,} profiles, max_bytes {chosen.max_mib:,} MiB"
    table = Table("measure", "value", title=title)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    max_bytes = chosen.max_mib * MEBIBYTE
    bars = [
        Bar("largest chunk / max_bytes", seen["largest_chunk_bytes"] / max_bytes, 1, False),
        Bar("peak growth / max_bytes", seen["peak_growth"] / max_bytes, WITHIN, False),
    ]
    show_bars(bars)
    observed = seen | {"bars": [bar.as_dict() for bar in bars]}
    path = record.write("stream_memory", parameters_of(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0 if seen["answers_agree"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
