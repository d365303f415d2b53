"""The experiments of paper ApproXFilter (§6), on germane: observe, then draw, then judge.

    python -m benchmarks.approximation --scale 0.1 --out out/approx

`parameters.toml` says what is run, `paper.toml` what the paper states, `differences.toml` why we
see something else where we do. `run` writes JSON lines under `out/raw/`: of every document how
many profiles it matches, of every number of profiles the space, and of every cell (contestant ×
threshold × number of profiles) the time of every document or batch, and whether the answers agree.
`page` makes the figures (PNG and SVG) and `index.md` from those files alone, and can be repeated
without measuring anything.
"""

from .experiments import run
from .page import page

__all__ = ["page", "run"]
