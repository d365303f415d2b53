"""The demo on the terminal: what goes in, day by day what comes out, why, and how fast.

Raises ``NotHere`` when this machine cannot run the pipeline, and ``Failed`` when the stream fails.
"""

import importlib.util
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from germane.cli import live, quiet
from germane.cli.demo.flights import people, pipeline, replay, stations
from germane.cli.demo.flights.replay import ASKED, Told, kind_of
from germane.cli.demo.flights.world import World, build
from germane.cli.demo.marks import DRAWN
from germane.cli.demo.why import why, why_not
from germane.model import GermaneError

BAR = 30
"""Characters of the bar of a day with one delivery for each traveller."""


class NotHere(Exception):
    """Why the pipeline cannot run on this machine."""


class Failed(Exception):
    """Why the stream ended before its time."""


def play(console: Console, n_days: int, n_travellers: int, output: Path) -> None:
    """Run it all."""
    started = time.perf_counter()
    output.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as aside, console.status("") as status:
        starting = aside.submit(_start)  # Java starts while we do something useful
        status.update("Reading flights and weather, making up people …")
        world = _build(n_days, n_travellers)
        _introduce(console, world)
        status.update("Compiling kernels: a minute on the very first run, seconds later on …")
        replay.warm_up(world)
        status.update("Starting Spark …")
        session, log = _started(starting)
    with tempfile.TemporaryDirectory(prefix="germane-", ignore_cleanup_errors=True) as folder:
        beats, outcome = _stream(console, world, session, Path(folder), log)
    log.unlink(missing_ok=True)
    _summarise(console, beats, outcome)
    with console.status("The same events through one filter, without Spark …"):
        checked = replay.replay(world, outcome.deliveries)
    _explain(console, checked)
    with console.status("Drawing …"):
        drawn = _draw(world, outcome, output)
    took = time.perf_counter() - started
    console.print(f"\n{drawn} All that took {took:.0f} s.")


# starting --------------------------------------------------------------------------------------


def _start() -> tuple[Any, Path]:
    """A session of Spark, and the file that its own words go to."""
    from germane import spark

    with quiet.into_file() as log:
        return spark.session(settings=pipeline.SETTINGS), log


def _started(starting: "Future[tuple[Any, Path]]") -> tuple[Any, Path]:
    try:
        return starting.result()
    except Exception as error:  # Java that does not start speaks in many ways
        raise NotHere(f"Spark does not start on this machine: {_first_line(error)}") from error


def _build(n_days: int, n_travellers: int) -> World:
    try:
        return build(n_days, n_travellers)
    except GermaneError as error:
        raise NotHere(f"The data is not here: {error}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# what goes in ----------------------------------------------------------------------------------


def _introduce(console: Console, world: World) -> None:
    first, last = world.days[0], world.days[-1]
    console.print(
        f"[bold]{len(world.flights.scheduled):,} flights from New York[/bold], as they were "
        f"from {first:%A} {first.day} {first:%B} to {last:%A} {last.day} {last:%B %Y}.\n"
        f"{world.messages.num_rows:,} messages say what becomes of them. "
        f"{world.profiles.num_rows:,} profiles wait, of people and of ramp crews,\n"
        f"whose contexts change {world.updates.num_rows:,} times: bookings, nerves, weather.\n"
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="green", no_wrap=True)
    table.add_column()
    gusts = stations.CONDITIONS["gusts"].format(origin="JFK", airline="B6")
    for kind, condition in {**people.CONDITIONS, "gusts": gusts}.items():
        table.add_row(kind, Text(condition))
    console.print(table, "")


# while it runs ---------------------------------------------------------------------------------


def _stream(
    console: Console, world: World, session: Any, folder: Path, log: Path
) -> tuple[list[live.Beat], pipeline.Outcome]:
    """Run the pipeline, a line a day."""
    beats: list[live.Beat] = []
    per_character = world.profiles.num_rows / 3 / BAR

    with console.status("Registering the profiles on Spark …") as status:

        def show(beat: live.Beat) -> None:
            day = world.days[len(beats)]
            beats.append(beat)
            bar = "█" * round(beat.deliveries / per_character)
            console.print(
                f"{day:%a} {day.day:2} {day:%b}  {beat.messages:6,} messages  "
                f"{beat.deliveries:7,} deliveries  [blue]{bar}[/blue]",
                soft_wrap=True,
            )
            if len(beats) < len(world.days):
                status.update(f"{world.days[len(beats)]:%A} …")

        try:
            return beats, pipeline.run(world, session, folder, show)
        except Exception as error:
            if not type(error).__module__.startswith("pyspark"):
                raise
            raise Failed(
                f"The stream failed: {_first_line(error)}\nWhat Spark said of it is in {log}."
            ) from error


# what came out ---------------------------------------------------------------------------------


def _summarise(console: Console, beats: list[live.Beat], outcome: pipeline.Outcome) -> None:
    warm = beats[1:] or beats
    seconds = sum(beat.seconds for beat in warm)
    messages, events = (sum(getattr(b, n) for b in warm) for n in ("messages", "events"))
    deliveries = [shard["deliveries"] for shard in outcome.shards]
    profiles = [shard["profiles"] for shard in outcome.shards]
    skew = max(deliveries) * len(deliveries) / max(1, sum(deliveries))
    rows = {
        "once warm": f"{messages / seconds:,.0f} messages/s among {events / seconds:,.0f} events/s",
        "profiles": " + ".join(f"{n:,}" for n in profiles) + f" on {len(profiles)} shards",
        "deliveries of shards": " + ".join(f"{n:,}" for n in deliveries),
        "skew": f"the busiest shard has {skew:.2f} times the mean",
    }
    console.print("", outcome.totals.table(**rows), "")


def _explain(console: Console, checked: replay.Replay) -> None:
    same = "the same deliveries" if checked.same else "[red]OTHER DELIVERIES (please report)[/red]"
    console.print(
        f"One filter without Spark, fed the same events: {same}, {checked.n_deliveries:,} of "
        f"them, in {checked.seconds:.1f} s. It also says why:\n"
    )
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for told in sorted(checked.told, key=lambda told: ASKED.index(kind_of(told.profile))):
        grid.add_row(*_told(told))
    console.print(grid)


def _told(told: Told) -> tuple[Text, Text]:
    got = told.explanation.matched
    mark, style = (DRAWN.delivered, "green") if got else (DRAWN.missed, "red")
    reason = why(told.explanation, DRAWN) if got else why_not(told.explanation)
    message = Text(f"{told.at:%a %H:%M} {told.message}\n", "bold")
    return Text(f"{mark} {told.profile}", style), message + Text(reason, "")


def _draw(world: World, outcome: pipeline.Outcome, output: Path) -> str:
    """Draw the picture, and say where it is."""
    if importlib.util.find_spec("matplotlib") is None:
        return "There is no picture: for one, pip install 'germane\\[demo]'."
    from germane.cli.demo.flights import picture

    picture.draw(world, outcome.deliveries, output)
    return f"The picture is in [bold]{output}[/bold]."
