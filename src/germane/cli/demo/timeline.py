"""The first part of the demo: every event of the scenario, who got it, and why."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import germane
from germane.cli.demo import scenario
from germane.cli.demo.marks import Marks
from germane.cli.demo.why import why, why_not


def play(console: Console, marks: Marks) -> None:
    """Set the scene, then stream the events through one filter."""
    filter_ = germane.Filter()
    for context, attributes in scenario.CONTEXTS.items():
        filter_.update(context, attributes)
    for profile in scenario.PROFILES:
        filter_.subscribe(profile.id, profile.condition, context=profile.context)
    console.print(_cast(marks))
    console.print()
    timeline = Timeline(console, marks, filter_)
    for event in scenario.EVENTS:
        timeline.show(event)
    console.print(f"\n{len(scenario.EVENTS)} events, {timeline.n_deliveries} deliveries.")


class Timeline:
    """Applies one event after another to a filter and prints what follows from it."""

    def __init__(self, console: Console, marks: Marks, filter_: germane.Filter) -> None:
        self.n_deliveries = 0
        self._n_events = 0
        self._console = console
        self._marks = marks
        self._filter = filter_

    def show(self, event: scenario.Event) -> None:
        self._n_events += 1
        match event:
            case scenario.Message():
                self._headline(self._marks.message, event.text, "bold")
                self._message(event)
            case scenario.Update():
                self._filter.update(event.context, event.attributes)
                change = f"{event.text}: {event.context} {_listed(event.attributes)}"
                self._headline(self._marks.update, change, "cyan")
            case scenario.Subscribe(profile=new):
                self._filter.subscribe(new.id, new.condition, context=new.context)
                text = f"{event.text}: {new.condition}"
                self._headline(self._marks.subscribe, text, "magenta")
            case scenario.Unsubscribe():
                self._filter.unsubscribe(event.profile_id)
                text = f"{event.text}: {event.profile_id} is withdrawn"
                self._headline(self._marks.unsubscribe, text, "magenta")

    def _message(self, event: scenario.Message) -> None:
        marks = self._marks
        delivered = self._filter.match(event.attributes)
        for profile_id in delivered:
            reason = why(self._filter.explain(profile_id, event.attributes), marks)
            self._detail(marks.delivered, profile_id, reason, "green")
        if not delivered:
            self._detail(marks.delivered, "nobody", "", "dim")
        if event.missed:
            reason = why_not(self._filter.explain(event.missed, event.attributes))
            self._detail(marks.missed, event.missed, reason, "red")
        self.n_deliveries += len(delivered)

    def _headline(self, mark: str, text: str, style: str) -> None:
        self._row((3, f"{self._n_events:>3}", "dim"), (1, mark, style), (None, text, style))

    def _detail(self, mark: str, who: str, reason: str, style: str) -> None:
        self._row((5, "", ""), (2, mark, style), (14, who, style), (None, reason, ""))

    def _row(self, *cells: tuple[int | None, str, str]) -> None:
        """Print (width, text, style) side by side; the last one wraps within its column."""
        grid = Table.grid(padding=(0, 1))
        for width, _, style in cells:
            grid.add_column(width=width, style=style)
        grid.add_row(*(Text(text) for _, text, _ in cells))
        self._console.print(grid)


def _cast(marks: Marks) -> Table:
    """Who waits for what, and how everyone is at the start."""
    table = Table(title="Who waits for what", title_justify="left", box=marks.box, pad_edge=False)
    table.add_column("profile", style="green", no_wrap=True)
    table.add_column("condition")
    table.add_column("context now", style="cyan")
    for profile in scenario.PROFILES:
        now = scenario.CONTEXTS[profile.context] if profile.context else {}
        table.add_row(Text(profile.id), Text(profile.condition), Text(_listed(now)))
    return table


def _listed(attributes: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in attributes.items())


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)
