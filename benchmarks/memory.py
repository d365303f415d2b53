"""Bytes a profile, size and start-up of a saved filter, and the first match of a new process.

    python -m benchmarks.memory --profiles 500000

Everything is measured in fresh processes: one registers the profiles and saves the filter, the
others load it. Resident memory is the growth of the process from "imported and warm" to "loaded
and matched"; the accounted figure is what Python and NumPy allocated in that time.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from . import record
from .rounds import Bar, console, show_bars


def resident_bytes() -> int:
    """Resident memory of this process, after handing free memory back."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def warm() -> None:
    """Load compiled kernels on a throw-away filter, so that they are not counted as profiles."""
    from . import engine
    from .workloads import rq, table2

    small = rq(1_000, 99)
    f = engine.static_filter(small, **engine.options("agile"))
    for message in engine.arrange(f, small.messages(20)):
        f.match_rows(message)
    engine.contextual_filter(table2(1_000, 99), **engine.options("agile"))


def make(kind: str, n_profiles: int, seed: int, index: str) -> Any:
    from . import engine
    from .workloads import rq, table2

    if kind == "rq":
        return engine.static_filter(rq(n_profiles, seed), **engine.options(index))
    return engine.contextual_filter(table2(n_profiles, seed), **engine.options(index))


def probe(f: Any, seed: int, n: int = 200) -> list[float]:
    """Match messages one by one; seconds of each."""
    from . import engine
    from .workloads import rq

    times = []
    for message in engine.arrange(f, rq(1, seed).messages(n)):
        start = time.perf_counter()
        f.match_rows(message)
        times.append(time.perf_counter() - start)
    return times


def child_build(chosen: Any) -> dict[str, Any]:
    """Register, measure what is left resident, save."""
    warm()
    before = resident_bytes()
    start = time.perf_counter()
    f = make(chosen.workload, chosen.profiles, chosen.seed, chosen.index)
    build_s = time.perf_counter() - start
    probe(f, chosen.seed)
    built = resident_bytes() - before
    start = time.perf_counter()
    f.save(Path(chosen.path))
    return {"build_s": build_s, "resident": built, "save_s": time.perf_counter() - start}


def child_load(chosen: Any) -> dict[str, Any]:
    """Load and match in a warm process: resident growth."""
    import germane

    warm()
    before = resident_bytes()
    f = germane.Filter.load(Path(chosen.path))
    probe(f, chosen.seed)
    return {"resident": resident_bytes() - before}


def child_account(chosen: Any) -> dict[str, Any]:
    """Load and match under tracemalloc: what Python and NumPy allocated."""
    import tracemalloc

    import germane

    warm()
    gc.collect()
    tracemalloc.start()
    f = germane.Filter.load(Path(chosen.path))
    probe(f, chosen.seed)
    gc.collect()
    return {"accounted": tracemalloc.get_traced_memory()[0]}


def child_start(chosen: Any) -> dict[str, Any]:
    """A cold process: import, load, first match, later matches, kernels compiled on the way."""
    from numba.core import event

    start = time.perf_counter()
    import germane

    import_s = time.perf_counter() - start
    with event.install_recorder("numba:compile") as seen:
        start = time.perf_counter()
        f = germane.Filter.load(Path(chosen.path))
        load_s = time.perf_counter() - start
        times = probe(f, chosen.seed)
    return {
        "import_s": import_s,
        "load_s": load_s,
        "first_match_s": times[0],
        "later_match_s": sorted(times[1:])[len(times) // 2],
        "compile_events": len(seen.buffer) // 2,
    }


CHILDREN = {
    "build": child_build,
    "load": child_load,
    "account": child_account,
    "start": child_start,
}


def asked(
    parser: argparse.ArgumentParser,
    children: dict[str, Callable[[Any], dict[str, Any]]],
    arguments: list[str] | None,
) -> Any:
    """The parsed arguments, or None where this process is a child and has now answered."""
    parser.add_argument("--child", choices=sorted(children), help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.child:
        print(json.dumps(children[chosen.child](chosen)))
        return None
    return chosen


def spawn(task: str, chosen: Any, path: Path, module: str = "memory") -> dict[str, Any]:
    """Run one child in a fresh process; its last line of output is its answer."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--child", task, "--path", str(path)]
    for name, value in parameters_of(chosen).items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{task} failed:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def parameters_of(chosen: Any) -> dict[str, Any]:
    """What a run was asked for, without what it tells its children."""
    return {name: value for name, value in vars(chosen).items() if name not in ("child", "path")}


def size_of(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def main(arguments: list[str] | None = None) -> int:
    """Run, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=int, default=500_000)
    parser.add_argument("--workload", choices=["rq", "table2"], default="rq")
    parser.add_argument("--index", default="agile")
    parser.add_argument("--seed", type=int, default=1)
    chosen = asked(parser, CHILDREN, arguments)
    if chosen is None:
        return 0

    with tempfile.TemporaryDirectory(prefix="germane-bench-") as folder:
        path = Path(folder) / "saved.germane"
        built = spawn("build", chosen, path)
        saved_bytes = size_of(path)
        loaded = spawn("load", chosen, path)
        accounted = spawn("account", chosen, path)
        starts = [spawn("start", chosen, path) for _ in range(3)]
    n = chosen.profiles
    table = Table("measure", "value", title=f"{chosen.workload}, {n:,} profiles, {chosen.index}")
    rows = {
        "registered in": f"{built['build_s']:.1f} s",
        "resident after registering": f"{built['resident'] / n:,.0f} bytes a profile",
        "resident after loading": f"{loaded['resident'] / n:,.0f} bytes a profile",
        "allocated after loading": f"{accounted['accounted'] / n:,.0f} bytes a profile",
        "saved file": f"{saved_bytes / n:,.0f} bytes a profile, {built['save_s']:.2f} s",
        "import": f"{starts[-1]['import_s']:.2f} s",
        "load": f"{starts[-1]['load_s']:.2f} s",
        "first match": f"{starts[-1]['first_match_s'] * 1e3:.2f} ms",
        "later matches": f"{starts[-1]['later_match_s'] * 1e3:.3f} ms",
        "kernels compiled in a later process": str(starts[-1]["compile_events"]),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    later = starts[1:]
    cold = max(s["load_s"] + s["first_match_s"] for s in later)
    resident = max(built["resident"], loaded["resident"]) / n
    bars = [
        Bar("memory a profile", resident, 350, at_least=False, unit="bytes"),
        Bar("load and first match, new process", cold, 3, at_least=False, unit="s"),
        Bar("kernels compiled", max(s["compile_events"] for s in later), 0, False, ""),
    ]
    show_bars(bars)
    observed = {
        "build": built,
        "saved_bytes": saved_bytes,
        "load": loaded,
        "account": accounted,
        "starts": starts,
        "bars": [bar.as_dict() for bar in bars],
    }
    path = record.write("memory", parameters_of(chosen), observed)
    console.print(f"record: {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
