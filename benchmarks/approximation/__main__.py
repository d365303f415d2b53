"""`python -m benchmarks.approximation`: the experiments with a progress bar, or only the page."""

from ..reproduction import command
from . import page, run

if __name__ == "__main__":
    command("Approx", run, page, "beyond", "leave out what is larger than the paper")
