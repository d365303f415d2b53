"""The experiments of the AGILE paper (§6), on germane: observe, then draw, then judge.

    python -m benchmarks.agile --scale 0.1 --out out/agile

`parameters.toml` says what is run, `paper.toml` what the paper printed. `run` writes one JSON
line per cell (strategy × parameters) under `out/raw/`: parameters, seed, commit, machine, the
time of every chunk, counters, and a digest of the answers. `page` makes the figures (PNG and SVG)
and `index.md` from those files alone, and can be repeated without measuring anything.
"""

from .experiments import run
from .page import page

__all__ = ["page", "run"]
