"""Events as columns: what a sender may write in two ways means the same, batched or not."""

import pytest

pytest.importorskip("msgspec")

from germane.service.cloudevents import PATCH
from germane.service.columns import Gathered


def _change(subject, data):
    return {"id": "1", "source": "/s", "type": PATCH, "subject": subject, "data": data}


def _message(data):
    return {"id": "1", "source": "/s", "type": "news", "data": data}


@pytest.mark.parametrize("turned", [False, True])
def test_a_node_without_its_list_is_one_node_beside_lists(turned):
    events = [_message({"place": ["Market", "Harbour"]}), _change("ben", {"place": "Market"})]
    gathered = Gathered({"place"}, ())
    gathered.add(1, events[::-1] if turned else events)
    table = gathered.table()
    values = [row["place"] for row in (table if isinstance(table, list) else table.to_pylist())]
    found = [[value] if isinstance(value, str) else value for value in values]
    expected = [["Market", "Harbour"], ["Market"]]
    assert found == (expected[::-1] if turned else expected)


@pytest.mark.parametrize("turned", [False, True])
def test_a_context_may_have_a_time_that_is_none(turned):
    """The time of messages is a timestamp; a person's ``time`` may be anything beside them."""
    events = [{**_message({}), "time": "2026-11-18T08:00:00Z"}, _change("ben", {"time": 5})]
    gathered = Gathered((), ())
    gathered.add(1, events[::-1] if turned else events)
    assert isinstance(gathered.table(), list)  # so that the filter sees each by itself
