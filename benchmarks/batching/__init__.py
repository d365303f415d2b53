"""The experiments of paper Batching (§6 and §7), on germane: observe, then draw, then judge.

    python -m benchmarks.batching --scale 0.1 --out out/batching

`parameters.toml` says what is run, `paper.toml` what the paper printed, `differences.toml` why we
see something else where we do. `run` writes one JSON line per cell (contestant × batch size ×
stream × structure) under `out/raw/`: parameters, seed, commit, machine, the time of every turn,
time per stage, counters, and a digest of the answers. `page` makes the figures (PNG and SVG) and
`index.md` from those files alone, and can be repeated without measuring anything.
"""

from .experiments import run
from .page import page

__all__ = ["page", "run"]
