"""The context store: who is where, holds what, waits for what: columns of current values."""

from germane.context.ids import Ids, as_id
from germane.context.store import Contexts
from germane.context.strings import Strings

__all__ = ["Contexts", "Ids", "Strings", "as_id"]
