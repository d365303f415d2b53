"""User agents over HTTP: whoever changes a context, what was learned follows; devices differ."""

import time
from pathlib import Path

import pytest

for needed in ("fastapi", "httpx", "uvicorn"):
    pytest.importorskip(needed)

from service_kit import change, message, wait_until
from test_service_http import MANY, root, service, tenant, token_of  # noqa: F401

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
    wait_until(lambda: said(tenant.get("/stats"))["position"] >= seq)
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


def test_a_refused_change_of_a_context_changes_nothing(ann):
    said(ann.patch("/agents/ann/context", json={"task": "work"}))
    before = said(ann.get("/contexts/ann"))["values"]
    letters = said(ann.get("/deadletters"))
    last = said(ann.get("/stats"))["log"]["last"]
    for bad in ({"task": 5}, {"task": 5, "mood": "calm"}, {"mood": "calm", "task": True}):
        answer = ann.patch("/agents/ann/context", json=bad)
        assert answer.status_code == 422
        assert "'task' is a string" in answer.json()["error"]
    assert said(ann.get("/stats"))["log"]["last"] == last  # nothing was written
    assert said(ann.get("/deadletters")) == letters
    for way in (ann.patch, ann.put):
        assert way("/contexts/ann", json={"task": 5, "mood": "calm"}).status_code == 422
        assert said(ann.get("/contexts/ann"))["values"] == before
    events = [change("ann", task=5, mood="calm"), change("ann", task="leisure")]
    seq = said(ann.post("/events", json=events, headers={"Content-Type": MANY}))["last"]
    assert got(ann) == {"Music"}, seq  # what is right in the batch is followed
    assert said(ann.get("/contexts/ann"))["values"]["situation"] == "task leisure"


def tell(tenant, delivery, signal="kept", **more):  # noqa: F811
    """Feedback on a delivery; the pieces that the agent has then, each as context, kind, time."""
    body = {"delivery": delivery["id"], "signal": signal, **more}
    said(tenant.post("/agents/ann/feedback", json=body))
    pieces = said(tenant.get("/agents/ann/export"))["pieces"]
    return [(dict(context), kind, at) for _, _, context, kind, _, at in pieces]


def test_feedback_is_learned_in_the_context_it_was_given_in(ann):
    said(ann.patch("/agents/ann/context", json={"task": "work"}))
    [delivery] = received(ann, publish(ann, "Talks"))
    context = {"task": "lunch", "daypart": "noon", "calm": True, "phone": "+49 30"}
    *_, last = tell(ann, delivery, context=context, at=1_700_000_000.5)
    assert last == ({"task": "lunch", "time": "noon", "calm": "True"}, "kept", 1_700_000_000.5)
    *_, last = tell(ann, delivery, "less", context={"time": "night"}, at="2026-11-18T08:00:00Z")
    assert last == ({"time": "night"}, "less", 1_794_988_800.0)
    before = time.time()
    *_, last = tell(ann, delivery, "dismissed")
    assert last[:2] == ({"task": "work"}, "dismissed")
    assert before - 1 <= last[2] <= time.time() + 1
    *_, last = tell(ann, delivery, "opened", seconds=3, at=time.time() + 30)
    assert last[1] == "opened"
    for bad in (
        {"at": time.time() + 100}, {"at": -1}, {"at": "1969-01-01T00:00:00Z"}, {"at": "soon"},
        {"at": True}, {"at": 1e300}, {"context": {"task": 5}}, {"context": {"task": "x" * 501}},
        {"context": {"x" * 101: "y"}}, {"context": {f"x{i}": "y" for i in range(21)}},
        {"context": "work"}, {"context": {"task": None}},
    ):  # fmt: skip
        body = {"delivery": delivery["id"], "signal": "kept", **bad}
        assert ann.post("/agents/ann/feedback", json=body).status_code == 422, bad


def test_feedback_that_is_sent_again_counts_once(ann):
    said(ann.patch("/agents/ann/context", json={"task": "work"}))
    [delivery] = received(ann, publish(ann, "Talks"))
    n = len(tell(ann, delivery))
    last = said(ann.get("/stats"))["log"]["last"]
    assert len(tell(ann, delivery)) == n
    assert said(ann.get("/stats"))["log"]["last"] == last  # nothing was written
    said(ann.patch("/agents/ann/context", json={"task": "leisure"}))
    assert len(tell(ann, delivery)) == n
    assert len(tell(ann, delivery, context={"task": "work"}, at=5.0)) == n
    assert len(tell(ann, delivery, "opened", seconds=5, at=7.0)) == n + 1  # something else
    assert len(tell(ann, delivery, "opened", seconds=5, at=7.0, context={"task": "x"})) == n + 1
    assert len(tell(ann, delivery, "opened", seconds=6, at=8.0)) == n + 2
    assert len(tell(ann, delivery, "less")) == n + 3


def test_one_undo_takes_back_one_press(ann):
    def chosen():
        known = said(ann.get("/agents/ann"))["interests"]
        return {each["topic"]: each["state"] for each in known if each["state"]}

    for state in ("muted", "pinned"):
        said(ann.put("/agents/ann/topics/Music", json={"state": state}))
    assert chosen() == {"Music": "pinned"}
    said(ann.post("/agents/ann/undo"))
    assert chosen() == {"Music": "muted"}
    said(ann.post("/agents/ann/undo"))
    assert chosen() == {}


def test_one_undo_takes_back_feedback_on_a_digest(ann):
    said(ann.put("/preferences/ann", json={"digest": {"count": 4, "seconds": 3600}}))
    said(ann.patch("/agents/ann/context", json={"task": "work"}))
    for _ in range(4):
        seq = publish(ann, "Talks")
    received(ann, seq)

    def last_if_digest():
        found = said(ann.get("/deliveries", params={"subscriber": "ann", "limit": 1000}))
        last = found["deliveries"][-1]
        return last if last["digest"] else None

    digest = wait_until(last_if_digest)
    assert len(digest["items"]) == 4
    n = said(ann.get("/agents/ann"))["feedback"]
    assert len(tell(ann, digest)) == n + 4
    assert len(tell(ann, digest)) == n + 4
    said(ann.post("/agents/ann/undo"))
    assert said(ann.get("/agents/ann"))["feedback"] == n
    said(ann.put("/preferences/ann", json={}))


def learned(tenant):  # noqa: F811
    """Conditions of the learned subscriptions that ann has in the service."""
    rows = said(tenant.get("/subscriptions", params={"subscriber": "ann"}))["subscriptions"]
    return [each["condition"] for each in rows if each["id"].startswith("agent-")]


@pytest.mark.parametrize("way", ["off", "erase"])
def test_what_was_learned_ends_although_the_graph_has_changed(ann, way):
    said(ann.patch("/agents/ann/context", json={"task": "leisure"}))
    unlinks = [["Top", "Music"], ["Top", "Talks"]]
    said(ann.patch("/graphs/topic", json={"unlinks": unlinks}))
    assert any("'Music'" in each for each in learned(ann))
    letters = said(ann.get("/deadletters"))
    if way == "off":
        said(ann.put("/agents/ann", json={"on": False}))
    else:
        said(ann.delete("/agents/ann"))
    assert learned(ann) == []
    assert received(ann, publish(ann, "Music")) == []
    assert said(ann.get("/deadletters")) == letters


def test_a_choice_ends_what_the_graph_has_made_void(ann):
    said(ann.patch("/agents/ann/context", json={"task": "leisure"}))
    said(ann.patch("/graphs/topic", json={"unlinks": [["Top", "Music"]]}))
    assert any("'Music'" in each for each in learned(ann))
    said(ann.put("/agents/ann/topics/Sports", json={"state": "muted"}))
    wanted = {each["condition"] for each in said(ann.get("/agents/ann"))["subscriptions"]}
    assert set(learned(ann)) == wanted
    assert not any("'Music'" in each for each in wanted)
    said(ann.put("/agents/ann", json={"on": True}))
    assert set(learned(ann)) == wanted


def test_what_is_erased_is_not_in_the_tables(ann, service):  # noqa: F811
    secret = "therapy xyzzy"
    said(ann.patch("/agents/ann/context", json={"task": secret}))
    said(ann.patch("/agents/ann/context?device=phone", json={"task": secret}))
    said(ann.put("/agents/ann/topics/Music", json={"state": "pinned"}))
    [delivery] = received(ann, publish(ann, "Music"))
    tell(ann, delivery)
    path = f"/deliveries/{delivery['id']}/explanation"
    assert secret in ann.get(path).text
    said(ann.patch("/agents/ann/context", json={"task": "work"}))
    said(ann.patch("/agents/ann/context?device=phone", json={"task": "work"}))
    assert said(ann.delete("/agents/ann"))["applied"]
    found = said(ann.get("/deliveries", params={"subscriber": "ann", "limit": 1000}))
    assert found["deliveries"]
    assert {each["feedback"] for each in found["deliveries"]} == {None}
    for context in ("ann", "ann/phone"):
        assert said(ann.get(f"/contexts/{context}"))["values"] == {"task": "work"}
    explained = said(ann.get(path))["subscriptions"]
    assert explained == []
    assert said(ann.get("/agents/ann/export"))["pieces"] == []
    files = list(Path(service.settings.data).glob("service.db*"))
    assert files
    for file in files:
        assert secret.encode() not in file.read_bytes(), file


def test_undo_takes_back_what_a_delivery_says_of_itself(ann):
    def flag():
        return said(ann.get(f"/deliveries/{delivery['id']}"))["feedback"]

    said(ann.patch("/agents/ann/context", json={"task": "work"}))
    [delivery] = received(ann, publish(ann, "Talks"))
    flags = []
    for signal in ("kept", "less", "opened", "kept"):
        tell(ann, delivery, signal, context={"task": f"work, {len(flags)}"})
        flags.append(flag())
    assert flags == [True, False, False, True]
    for expected in (False, False, True, None):
        said(ann.post("/agents/ann/undo"))
        assert flag() is expected
    tell(ann, delivery, "dismissed")
    assert flag() is None
    tell(ann, delivery)
    assert flag() is True


def test_what_is_undone_is_unlearned_once(ann):
    """It may be sent again, since an answer was lost; what was said before it stays."""
    said(ann.patch("/agents/ann/context", json={"task": "work"}))
    [delivery] = received(ann, publish(ann, "Talks"))
    now, before = time.time(), len(said(ann.get("/agents/ann/export"))["pieces"])

    def told(signal, ago):
        kinds = [kind for _, kind, _ in tell(ann, delivery, signal, at=now - ago)]
        return kinds[before:], said(ann.get(f"/deliveries/{delivery['id']}"))["feedback"]

    assert told("kept", 9) == (["kept"], True)
    assert told("opened", 8) == (["kept", "opened"], True)
    assert told("less", 7) == (["kept", "opened", "less"], False)
    for _ in range(2):
        assert told("undone", 6) == (["kept", "opened"], True)
    for _ in range(2):
        assert told("undone", 5) == (["opened"], None)
    assert told("undone", 4) == (["opened"], None)
    said(ann.post("/agents/ann/undo"))
    pieces = said(ann.get("/agents/ann/export"))["pieces"]
    assert [kind for _, _, _, kind, _, _ in pieces[before:]] == ["opened", "kept"]


def test_a_device_is_nobody_else(ann, service):  # noqa: F811
    def her(how, **more):
        return getattr(hers, how)("/agents/ann/context", params={"device": "phone"}, **more)

    hers = token_of(service, ann, "subscriber", "ann")
    said(her("patch", json={"task": "leisure"}))  # while nobody has that name
    assert any("leisure" in each for each in learned(ann))
    other = token_of(service, ann, "subscriber", "ann/phone")
    before = {"task": "private", "limit": 5}
    said(other.put("/contexts/ann/phone", json=before))
    delivery = {"delivery": 1, "signal": "kept", "device": "phone"}
    for answer in (
        hers.get("/agents/ann", params={"device": "phone"}),
        her("patch", json={"task": "x"}),
        hers.post("/agents/ann/feedback", json=delivery),
    ):
        assert answer.status_code == 422, answer.text
        assert "'ann/phone' is a subscriber" in answer.json()["error"]
    assert her("delete").status_code == 404
    for on in (True, False, True):
        said(hers.put("/agents/ann", json={"on": on}))
    assert "private" not in hers.get("/agents/ann/export").text
    assert "phone" not in said(hers.get("/agents/ann/export"))["devices"]
    said(other.patch("/contexts/ann/phone", json={"task": "secret"}))
    assert "secret" not in hers.get("/agents/ann/export").text
    said(hers.delete("/agents/ann"))
    assert said(other.get("/contexts/ann/phone"))["values"]["limit"] == 5
    assert said(other.get("/contexts/ann/phone"))["values"]["task"] == "secret"


def test_ids_of_what_is_learned_are_nobody_s_to_choose(ann, service):  # noqa: F811
    bob = token_of(service, ann, "subscriber", "bob")
    [taken, *_] = [each["id"] for each in said(ann.get("/agents/ann"))["subscriptions"]]
    answers = [
        who.put(f"/subscriptions/{id_}", json={"condition": "n = 1", "subscriber": name})
        for who, name in ((bob, "bob"), (ann, "ann"))
        for id_ in (taken, "agent-" + "0" * 20)
    ]
    assert {answer.status_code for answer in answers} == {422}
    [said_of_taken, said_of_free, *_] = [answer.json()["error"] for answer in answers]
    assert said_of_taken == said_of_free.replace("agent-" + "0" * 20, taken)
    assert bob.get(f"/subscriptions/{taken}").status_code == 404
    said(ann.patch(f"/subscriptions/{taken}", json={"muted": True}))
    said(ann.delete(f"/subscriptions/{taken}"))


def test_choices_that_no_condition_can_hold_change_nothing(ann):
    names = [f"{i:03} {'long ' * 98}"[:494] for i in range(140)]
    said(ann.patch("/graphs/topic", json={"links": [["Top", name] for name in names]}))
    said(ann.patch("/agents/ann/context", json={"task": "leisure"}))
    before = {}
    for name in names:
        now = said(ann.get("/agents/ann/export"))["pinned"]
        answer = ann.put(f"/agents/ann/topics/{name}", json={"state": "pinned"})
        if answer.status_code != 200:
            before = now
            break
    assert answer.status_code == 422
    assert "65,536" in answer.json()["error"]
    assert said(ann.get("/agents/ann/export"))["pinned"] == before
    assert len(before) > 100
    answer = ann.patch("/agents/ann/context", json={"task": "t" * 500})
    assert answer.status_code == 422
    assert said(ann.get("/agents/ann"))["context"] == {"task": "leisure"}
    said(ann.patch("/contexts/ann", json={"task": "t" * 500}))  # events are not refused for that
    said(ann.patch("/contexts/ann", json={"task": "leisure"}))
    for way in (
        lambda: ann.put("/agents/ann", json={"on": True}),
        lambda: ann.post("/agents/ann/undo"),
    ):
        said(way())
    assert len(said(ann.get("/agents/ann/export"))["pinned"]) == len(before) - 1


def test_a_context_that_has_no_name_is_refused(ann):
    name = "b" * 500
    said(ann.patch(f"/agents/{name}/context", json={"task": "work"}))
    said(ann.put(f"/agents/{name}", json={"on": True}))
    answer = ann.patch(f"/agents/{name}/context?device=phone", json={"task": "work"})
    assert answer.status_code == 422
    assert "500 characters" in answer.json()["error"]
    assert list(said(ann.get(f"/agents/{name}/export"))["devices"]) == [""]
