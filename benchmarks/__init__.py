"""Experiments, peers and the paper's figures: what germane costs, measured against others.

Every command is a module: `python -m benchmarks.speed`, `.updates`, `.memory`, `.batches`,
`.interleaved`, `.stream_memory`, `.growth`, `.register`, and `python -m benchmarks.agile` and
`.batching` for the experiments of the papers (`reproduction`). Each makes its input from a seed
(`workloads`, `streams`), measures rivals in alternating rounds of one run (`rounds`), checks that
all of them gave the same answers, and writes what it saw to a JSON record (`record`). Nothing here
is a timed test: verdicts are printed, not asserted.
"""
