"""`germane reproduce …`: the experiments of the papers, which live beside the library."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import germane

app = typer.Typer(help="Repeat the experiments of the papers.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Repeat the experiments of the papers."""


Scale = Annotated[
    float | None,
    typer.Option(help="Share of the paper's sizes, e.g. 0.1. Default: fits this machine."),
]
Out = Annotated[Path, typer.Option(help="Where observations, tables and figures go.")]
Seed = Annotated[int, typer.Option(help="Seed of every generated workload.")]


@app.command("agile")
def agile(scale: Scale = None, out: Out = Path("out/agile"), seed: Seed = 1) -> None:
    """AGILE: indexes under changing contexts, all strategies on the paper's workloads."""
    _reproduce("agile", scale, out, seed)


@app.command("batching")
def batching(scale: Scale = None, out: Out = Path("out/batching"), seed: Seed = 1) -> None:
    """Batching: all strategies by batch size, groupings, latencies and bursts."""
    _reproduce("batching", scale, out, seed)


@app.command("graphs")
def graphs(scale: Scale = None, out: Out = Path("out/graphs"), seed: Seed = 1) -> None:
    """Notification: matching on content graphs by users and topics, and beyond the paper."""
    _reproduce("notification", scale, out, seed)


@app.command("approx")
def approx(scale: Scale = None, out: Out = Path("out/approx"), seed: Seed = 1) -> None:
    """ApproXFilter: matches with and without transformations, time and space by profiles."""
    _reproduce("approximation", scale, out, seed)


@app.command("contextcast")
def contextcast(
    scale: Scale = None,
    out: Out = Path("out/contextcast"),
    seed: Seed = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an earlier run was broken off.")
    ] = False,
) -> None:
    """Contextcast: aggregated contexts in a simulated overlay; runs are Spark jobs."""
    _reproduce("contextcast", scale, out, seed, resume=resume)


def _reproduce(paper: str, scale: float | None, out: Path, seed: int, **options: Any) -> None:
    """Run the experiments of a paper with a progress bar."""
    experiment = _experiment(f"benchmarks.{paper}")
    out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        experiment.run(scale=scale, out=out, seed=seed, progress=progress, **options)
    typer.echo(f"results are in {out}")


def _experiment(name: str) -> Any:
    """Import an experiment; it is part of the source tree, not of the installed package."""
    source_tree = Path(germane.__file__).resolve().parents[2]
    if (source_tree / "benchmarks").is_dir():
        sys.path.insert(0, str(source_tree))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            typer.echo(
                f"The experiments need {error.name!r}. Install it with: pip install "
                "'germane[bench,plots]'",
                err=True,
            )
            raise typer.Exit(2) from error
        typer.echo(
            "The experiments live in benchmarks/ of germane's source tree, which is not "
            "here.\nClone the repository, and in it run: python3 dev.py run reproduce "
            + name.rpartition(".")[2],
            err=True,
        )
        raise typer.Exit(2) from error
