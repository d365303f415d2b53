"""`python -m benchmarks.batching`: the experiments with a progress bar, or only the page."""

from ..reproduction import command
from . import page, run

if __name__ == "__main__":
    command("Batching", run, page)
