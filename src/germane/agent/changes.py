"""What an agent wants done to a filter: subscriptions to make and to end, contexts to update."""

from typing import Any, NamedTuple

__all__ = ["Changes", "Subscription"]


class Subscription(NamedTuple):
    """A condition, whose context it reads, and why."""

    id: str
    condition: str
    context: str
    why: str


class Changes(NamedTuple):
    """What is to be done, in this order."""

    subscribe: list[Subscription]
    update: dict[str, dict[str, Any]]  # context -> values; None removes
    unsubscribe: list[str]

    def apply(self, target: Any) -> None:
        """Do it to a ``Filter``, or to whatever has its three methods.

        A subscription that only changes goes before it comes again; no message is between the two,
        unless the caller lets one in.
        """
        gone = set(self.unsubscribe)
        for row in self.subscribe:
            if row.id in gone:
                target.unsubscribe(row.id)
            target.subscribe(row.id, row.condition, context=row.context)
        for context, values in self.update.items():
            target.update(context, values)
        for row_id in gone - {row.id for row in self.subscribe}:
            target.unsubscribe(row_id)
