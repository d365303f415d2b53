"""Profile rows of messages, as batches find them -> names, laid out message after message.

In: the rows of one part of what was found, and which messages have theirs in it. Out: an entry of
``names`` for each row, at the message's place. One pass; nothing lies in between.
"""

from typing import Any

import numpy as np

from germane.kernels.compile import kernel


@kernel
def name_rows(
    rows: Any, members: Any, starts: Any, counts: Any, places: Any, names: Any, out: Any
) -> None:
    """Write the names of some messages' rows to where each message has its place in ``out``."""
    for i in range(members.shape[0]):
        message = members[i]
        mine = rows[starts[message] : starts[message] + counts[message]]
        named = out[places[message] : places[message] + counts[message]]
        for k in range(mine.shape[0]):
            named[k] = names[np.uint32(mine[k])]  # a signed index may count from the end: a test
