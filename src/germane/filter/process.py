"""The one path of a sequence: mixed events in ``seq`` order, in runs of one kind.

In: Arrow record batches or dicts of events. Out: ``Deliveries``. A run is as many events of one
kind as follow one another. Messages of a run are matched as a batch; updates of a run are
coalesced by (context, attribute), since only the last can be seen, and carried into the indexes
in bulk. So each message meets exactly the state before it, however the sequence is cut.

What is malformed is rejected by itself and changes nothing; a ``seq`` that is not above all before
it is a duplicate, and ignored.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from germane.filter.deliveries import Deliveries
from germane.filter.events_as_arrow import ArrowEvents
from germane.filter.events_as_dicts import DictEvents
from germane.model import InvalidValue

if TYPE_CHECKING:
    from germane.filter.filter import Filter

RUN = 1 << 16
"""Events that are put into one run at most, where they come as dicts."""


def process(f: "Filter", events: Any) -> Deliveries:
    """Take events in order; see ``Filter.process``."""
    out = Deliveries()
    position = 0
    for part in _parts(events):
        f._keep_sets()
        if isinstance(part, list):
            DictEvents(f, out, position).play(part)
            position += len(part)
        else:
            ArrowEvents(f, out, position, part).play()
            position += part.num_rows
    out.rejected.sort(key=lambda rejected: rejected.position)
    return out


def _parts(events: Any) -> Iterator[Any]:
    """Arrow tables, and lists of dicts, in order."""
    import pyarrow as pa

    if isinstance(events, pa.Table):
        yield events
        return
    if isinstance(events, pa.RecordBatch):
        yield pa.Table.from_batches([events])
        return
    if isinstance(events, Mapping | str | bytes) or not isinstance(events, Iterable):
        raise InvalidValue(
            "process takes Arrow record batches or a sequence of events as dicts, not "
            f"{events!r:.200}"
        )
    listed: list[Any] = []
    for event in events:
        if isinstance(event, pa.Table | pa.RecordBatch):
            if listed:
                yield listed
                listed = []
            yield from _parts(event)
            continue
        listed.append(event)
        if len(listed) >= RUN:
            yield listed
            listed = []
    if listed:
        yield listed
