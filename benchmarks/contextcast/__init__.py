"""The simulation of paper Contextcast (§IV): observe, then draw, then judge.

    python -m benchmarks.contextcast --scale 0.25 --out out/contextcast

`parameters.toml` says what is run, `paper.toml` what the paper states, `differences.toml` why we
see something else where we do. `run` writes one JSON line per run (scenario × threshold × seed)
under `out/raw/`: sizes, seed, commit, machine, and what was counted in every window of cycles.
`page` makes the figures (PNG and SVG) and `index.md` from those files alone.
"""

from .experiments import run
from .page import page

__all__ = ["page", "run"]
