"""The experiments of paper Notification (§6), on germane: observe, then draw, then judge.

    python -m benchmarks.notification --scale 0.1 --out out/graphs

`parameters.toml` says what is run, `paper.toml` what the paper states, `differences.toml` why we
see something else where we do. `run` writes one JSON line per cell (contestant × users × topics)
under `out/raw/`: sizes, seed, commit, machine, the time of every event or batch, and whether the
answers agree. `page` makes the figures (PNG and SVG) and `index.md` from those files alone, and can
be repeated without measuring anything.
"""

from .experiments import run
from .page import page

__all__ = ["page", "run"]
