"""User agents over HTTP: whoever changes a context, what was learned follows; devices differ."""

import pytest

for needed in ("fastapi", "httpx", "uvicorn"):
    pytest.importorskip(needed)

from service_kit import change, message
from test_service_http import MANY, root, service, tenant  # noqa: F401

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.usefixtures("compiled")]
TOPICS = [["Top", "Music"], ["Top", "Sports"], ["Top", "Talks"]]
LIKES = {"leisure": "Music", "work": "Talks"}


@pytest.fixture
def ann(tenant):  # noqa: F811
    """Somebody who likes music at leisure and talks at work, and whose agent knows it."""
    assert tenant.put("/graphs/topic", json={"edges": TOPICS}).is_success
    body = {"condition": "topic WITHIN 'Top'", "subscriber": "ann", "context": "ann"}
    own = tenant.post("/subscriptions", json=body).json()["id"]
    for task in LIKES:
        for topic in ("Music", "Talks", "Sports"):
            said(tenant.patch("/agents/ann/context", json={"task": task}))
            for _ in range(3):
                [delivery] = received(tenant, publish(tenant, topic))
                signal = "kept" if LIKES[task] == topic else "dismissed"
                said(tenant.post("/agents/ann/feedback", json={"delivery": delivery["id"],
                                                               "signal": signal}))  # fmt: skip
    said(tenant.delete(f"/subscriptions/{own}"))
    said(tenant.put("/agents/ann", json={"on": True}))
    return tenant


def said(answer):
    assert answer.is_success, answer.text
    return answer.json()


def publish(tenant, topic, *before):  # noqa: F811
    """A message behind some other events; its seq."""
    events = [*before, message(topic=[topic])]
    headers = {"Content-Type": MANY}
    return said(tenant.post("/events", json=events, headers=headers))["last"]


def received(tenant, seq):  # noqa: F811
    """Deliveries of a message."""
    while said(tenant.get("/stats"))["position"] < seq:
        pass
    found = said(tenant.get("/deliveries", params={"subscriber": "ann", "limit": 1000}))
    return [each for each in found["deliveries"] if each["seq"] == seq]


def got(tenant):  # noqa: F811
    """Which topics reach ann through what was learned to be liked."""
    topics = set()
    for topic in ("Music", "Talks", "Sports"):
        for delivery in received(tenant, publish(tenant, topic)):
            for each in said(tenant.get("/agents/ann"))["subscriptions"]:
                if each["id"] in delivery["subscriptions"] and "find out" not in each["because"]:
                    topics.add(topic)
    return topics


WAYS = {
    "the agent": lambda t, task: t.patch("/agents/ann/context", json={"task": task}),
    "patch": lambda t, task: t.patch("/contexts/ann", json={"task": task, "unread": 3}),
    "put": lambda t, task: t.put("/contexts/ann", json={"task": task}),
    "an event": lambda t, task: t.post(
        "/events", json=[change("ann", task=task)], headers={"Content-Type": MANY}
    ),
}


def test_whoever_changes_the_context_the_agent_follows(ann):
    for way in WAYS.values():
        for task, topic in LIKES.items():
            said(way(ann, task))
            assert got(ann) == {topic}
    said(ann.put("/contexts/ann", json={"task": "work"}))  # the same again: no situation is lost
    assert got(ann) == {"Talks"}
    assert said(ann.get("/contexts/ann"))["values"]["situation"] == "task work"


def test_a_position_is_no_other_situation_and_a_word_is(ann):
    said(ann.patch("/contexts/ann", json={"task": "work"}))
    last = said(ann.get("/stats"))["log"]["last"]
    said(ann.patch("/contexts/ann", json={"position": [1.5, 2.5], "seen": "12:30"}))
    assert said(ann.get("/stats"))["log"]["last"] == last + 1
    said(ann.patch("/contexts/ann", json={"mood": "calm"}))
    assert said(ann.get("/contexts/ann"))["values"]["situation"] == "mood calm, task work"
    said(ann.patch("/contexts/ann", json={"mood": None}))
    assert said(ann.get("/contexts/ann"))["values"]["situation"] == "task work"


def test_two_devices_have_two_contexts(ann):
    said(ann.patch("/agents/ann/context", json={"task": "work"}))
    said(ann.patch("/agents/ann/context?device=phone", json={"task": "leisure"}))
    assert got(ann) == {"Music", "Talks"}
    assert said(ann.get("/agents/ann?device=phone"))["context"] == {"task": "leisure"}
    said(ann.patch("/contexts/ann/phone", json={"task": "work"}))
    assert got(ann) == {"Talks"}
    said(ann.put("/agents/ann", json={"on": False}))
    assert got(ann) == set()
    said(ann.patch("/contexts/ann/phone", json={"task": "leisure"}))  # nobody follows
    said(ann.put("/agents/ann", json={"on": True}))
    assert got(ann) == {"Music", "Talks"}
    assert ann.patch("/agents/ann/context?device=a/b", json={}).status_code == 422
    said(ann.delete("/agents/ann/context?device=phone"))
    assert got(ann) == {"Talks"}
    left = ann.get("/contexts/ann/phone")
    assert left.status_code == 404 or not left.json()["values"]
    assert ann.delete("/agents/ann/context?device=phone").status_code == 404
