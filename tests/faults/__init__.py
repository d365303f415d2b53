"""Faults of a stream: whatever breaks, the sink holds what the oracle says, each row once.

    ``scenes``     what happens: a random sequence of events, cut into parts, and the answers
    ``inputs``     a scene's parts as files that streams read
    ``sinks``      a sink that breaks off, and what a reader finds in the sinks
    ``driver``     the process that runs Spark and the stream; ``process`` starts and kills it
    ``daemon``     its Python workers, started with everything imported, so that deaths are cheap
    ``checkpoint`` how far a stream is, and damage to its files
    ``play``       a scene on its way, and the comparison at its end
    ``faults``     what goes wrong; ``rounds`` draws scenes and faults
    ``campaign``   many rounds at random: ``python -m tests.faults --rounds 50 --seed 1``

All processes that are killed are descendants of a driver that was started here.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
if str(TESTS) not in sys.path:  # for the oracle, outside of pytest
    sys.path.insert(0, str(TESTS))
