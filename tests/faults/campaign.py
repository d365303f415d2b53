"""Many rounds, each a scene with faults drawn at random; stops at the first difference.

A round repeats from its seed alone: ``python -m tests.faults --round SEED``. What kills hit
depends on the machine, so a difference may take several tries.
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults import TESTS
from tests.faults.faults import FAULTS
from tests.faults.rounds import Drivers, play_round

RESULTS = Path(__file__).parent / "results"


def line_of(done: dict[str, Any]) -> str:
    """A round on one line."""
    scene = done["scene"]
    told = ", ".join(f"{name} {n}" for name, n in done["counts"].items() if n)
    return (
        f"{done['seed']:>6}  {'WRONG' if done['error'] else 'right'}  {done['seconds']:6.1f} s  "
        f"{'+'.join(done['faults'])}  shards {scene['shards']}, "
        f"{'together' if scene['together'] else 'waiting'}, {scene['form']} to {scene['sink']}: "
        f"{told}"
    )


def main() -> int:
    """Play rounds until one goes wrong, or time or rounds are used up."""
    arguments = _arguments()
    pick = random.Random(f"campaign {arguments.seed}")
    seeds = (
        [arguments.round]
        if arguments.round is not None
        else [pick.randrange(100_000) for _ in range(arguments.rounds)]
    )
    scratch = Path(tempfile.mkdtemp(prefix="germane-faults-"))
    drivers = Drivers(scratch, not arguments.large_state)
    only = arguments.faults.split(",") if arguments.faults else None
    rounds, end = [], time.monotonic() + arguments.seconds
    path = RESULTS / f"faults-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    try:
        for seed in seeds:
            if time.monotonic() > end:
                break
            rounds.append(play_round(seed, drivers, only))
            print(line_of(rounds[-1]), flush=True)
            if arguments.round is None:
                _record(path, arguments, rounds)
            if rounds[-1]["error"]:
                break
    finally:
        drivers.close()
    wrong = bool(rounds and rounds[-1]["error"])
    if wrong:
        print(rounds[-1]["error"])
        print(f"repeat it with --round {rounds[-1]['seed']}; files are in {scratch}")
    else:
        shutil.rmtree(scratch)
    if path.exists():
        print(f"recorded in {path.relative_to(TESTS.parent)}")
    return int(wrong)


def _record(path: Path, arguments: argparse.Namespace, rounds: list[dict[str, Any]]) -> None:
    """Write down what was done so far."""
    total: Counter[str] = Counter()
    for done in rounds:
        total.update(done["counts"])
    git = ["git", "-C", str(TESTS), "rev-parse", "--short=12", "HEAD"]
    record = {
        "arguments": vars(arguments),
        "commit": subprocess.run(git, capture_output=True, text=True).stdout.strip(),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "rounds_right": sum(not done["error"] for done in rounds),
        "rounds_wrong": sum(bool(done["error"]) for done in rounds),
        "seconds": round(sum(done["seconds"] for done in rounds)),
        "totals": dict(sorted(total.items())),
        "rounds": rounds,
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="of the campaign")
    parser.add_argument("--seconds", type=float, default=1800, help="no round begins after that")
    parser.add_argument("--round", type=int, help="only this one")
    parser.add_argument("--faults", help=f"only these, of {','.join(FAULTS)}")
    parser.add_argument("--large-state", action="store_true", help="snapshots as in earnest")
    return parser.parse_args()
