"""`python -m benchmarks.contextcast`: the simulation with a progress bar, or only the page."""

from ..reproduction import command
from . import page, run

if __name__ == "__main__":
    command("Contextcast", run, page, "parallel", "one run at a time, without Spark")
