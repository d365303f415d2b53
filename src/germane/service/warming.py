"""The filter's kernels, compiled before the first message comes.

    python -m germane.service.warming

A process of its own, started with the service the first time: it goes through what a tenant does,
so that the compiled kernels are on disk when the matcher needs them.
"""

from germane.service.columns import Gathered
from germane.service.regraph import new_filter

CONDITIONS = [
    "type = 'talk' AND start < context.last",
    "price BETWEEN context.limit - 5 AND context.limit + 5 AND room LIKE 'A%'",
    "room IN ('A1', 'A2') OR ABS(price - context.limit) > 2",
]


def warm(n: int = 300) -> int:
    """Match a little of everything; how many deliveries there were."""
    f = new_filter("agile")
    conditions = [CONDITIONS[i % len(CONDITIONS)] for i in range(n)]
    f.subscribe_many(list(range(n)), conditions, [f"c{i}" for i in range(n)])
    found = 0
    for first in range(1, 40 * n, n):
        gathered = Gathered((), f._contexts.slots)
        gathered.add(first, [_event(i) for i in range(n)])
        found += len(f.process(gathered.table()).to_arrow())
    return found


def _event(i: int) -> dict[str, object]:
    if i % 10:
        values = {"last": i % 20, "limit": float(i % 50)}
        return {"type": "germane.context.patch", "id": "c", "subject": f"c{i}", "data": values}
    data = {"start": i % 24, "price": i % 50, "room": f"A{i % 3}"}
    return {"type": "talk", "id": str(i), "source": "/", "data": data}


if __name__ == "__main__":
    warm()
