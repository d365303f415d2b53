"""`germane version`."""

import platform
from importlib import metadata

import typer


def version() -> None:
    """Print the versions of germane and of what its speed depends on."""
    typer.echo(f"germane {metadata.version('germane')}")
    for name in ("numpy", "numba", "pyarrow"):
        typer.echo(f"{name} {metadata.version(name)}")
    typer.echo(f"python {platform.python_version()} on {platform.machine()}")
