"""When deliveries become visible: quiet hours, digests, snoozes, rates, expiry, with a clock that
is turned by hand, also backwards. What is held is never lost."""

import json
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from service_kit import HOUR, SECOND, START, Kit, message

from germane.model import InvalidValue
from germane.service import holding, tables
from germane.service.clock import as_text

pytestmark = pytest.mark.xdist_group("service")


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path)
    made.subscribe("a", "n > 1")
    yield made
    made.close()


def micros(*parts, zone="UTC"):
    return int(datetime(*parts, tzinfo=ZoneInfo(zone)).timestamp() * SECOND)


def send(kit, **more):
    seq = kit.publish({**message(n=5), **more})
    kit.work()
    return seq


def test_quiet_hours_hold_until_morning(kit):
    kit.clock.at = micros(2026, 11, 18, 22, 30, zone="Europe/Berlin")
    kit.prefer("ann", quiet={"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"})
    seqs = [send(kit), send(kit)]
    assert kit.deliveries() == []
    [row, _] = kit.rows(tables.held)
    assert row.due == micros(2026, 11, 19, 7, zone="Europe/Berlin")
    kit.clock.turn(8 * 3600)
    kit.work()
    assert kit.deliveries() == []
    kit.clock.turn(1800)
    kit.work()
    assert kit.deliveries() == [("ann", [seq], "quiet") for seq in seqs]
    assert kit.rows(tables.held) == []
    seqs.append(send(kit))
    assert kit.deliveries()[-1] == ("ann", [seqs[-1]], None)


def test_urgent_passes(kit):
    kit.clock.at = micros(2026, 11, 18, 23)
    kit.prefer("ann", quiet={"from": "22:00", "to": "07:00"}, digest={"count": 5},
               snoozed_until="2026-11-19T12:00:00Z")  # fmt: skip
    seq = send(kit, urgent=True)
    assert kit.deliveries() == [("ann", [seq], None)]
    kit.subscribe("b", "n > 1", "bob", urgent=True)
    kit.prefer("bob", quiet={"from": "22:00", "to": "07:00"})
    seq = send(kit)
    assert kit.deliveries()[1:] == [("bob", [seq], None)]


def test_digest_by_time_and_by_count(kit):
    kit.prefer("ann", digest={"seconds": 3600, "count": 3})
    seqs = [send(kit), send(kit)]
    assert kit.deliveries() == []
    kit.clock.turn(3599)
    kit.work()
    assert kit.deliveries() == []
    kit.clock.turn(1)
    kit.work()
    assert kit.deliveries() == [("ann", seqs, "digest")]
    more = [send(kit), send(kit), send(kit)]
    assert kit.deliveries()[1:] == [("ann", more, "digest")]
    assert kit.rows(tables.held) == []


def test_a_digest_has_no_more_than_its_count(kit):
    """Also if more come at once, or are gathered while it is quiet."""
    kit.prefer("ann", digest={"count": 3, "seconds": 3600})
    first = kit.publish(*[message(n=5)] * 7)
    kit.work()
    seqs = [[first + i for i in part] for part in ((0, 1, 2), (3, 4, 5), (6,))]
    assert [each[1] for each in kit.deliveries()] == seqs[:2]
    [row] = kit.rows(tables.held)
    assert row.due == row.at + HOUR
    kit.clock.turn(3600)
    kit.work()
    assert [each[1] for each in kit.deliveries()] == seqs
    kit.prefer("ann", digest={"count": 2}, quiet={"from": "12:00", "to": "13:00"})
    seqs = [send(kit) for _ in range(5)]
    kit.clock.turn(3600)
    kit.work()
    assert [each[1] for each in kit.deliveries()[3:]] == [seqs[:2], seqs[2:4]]
    assert [row.seq for row in kit.rows(tables.held)] == seqs[4:]


def test_a_digest_that_is_due_at_night_waits_for_morning(kit):
    kit.clock.at = micros(2026, 11, 18, 21, 30)
    kit.prefer("ann", digest={"seconds": 3600}, quiet={"from": "22:00", "to": "07:00"})
    seqs = [send(kit)]
    kit.clock.turn(3600)
    kit.work()
    assert kit.deliveries() == []
    seqs.append(send(kit))
    kit.clock.at = micros(2026, 11, 19, 7)
    kit.work()
    kit.clock.turn(3600)
    kit.work()
    assert kit.deliveries() == [("ann", seqs, "digest")]


def test_what_is_gathered_is_counted_and_not_read(kit, monkeypatch):
    """Somebody for whom much is held costs a message no more than others."""
    from germane.service import delivering

    kit.prefer("ann", quiet={"from": "11:00", "to": "12:00"})
    seqs = [send(kit)]
    monkeypatch.setattr(delivering, "held_of", None)
    kit.prefer("ann", digest={"count": 4, "seconds": 3600})
    kit.matcher.round()
    first = kit.publish(*[message(n=5)] * 2)
    kit.matcher.round()
    kit.new_matcher()
    kit.publish(message(n=5))
    kit.matcher.round()
    rows = kit.rows(tables.held)
    assert [row.seq for row in rows] == [*seqs, first, first + 1, first + 2]
    assert [row.due for row in rows[1:]] == [START + HOUR, START + HOUR, START]
    monkeypatch.undo()
    kit.work()
    assert kit.deliveries() == [("ann", [row.seq for row in rows], "digest")]


def test_a_rate_counts_what_came_just_before_it(kit):
    """Also what the same round delivers, of which nothing is written yet."""
    first = kit.publish(*[message(n=5)] * 3)
    kit.prefer("ann", rate={"limit": 5, "seconds": 60})
    second = kit.publish(*[message(n=5)] * 4)
    kit.work()
    seqs = [first, first + 1, first + 2, second, second + 1]
    assert [each[1] for each in kit.deliveries()] == [[seq] for seq in seqs]
    kit.clock.turn(60)
    kit.work()
    assert [each[1] for each in kit.deliveries()][5:] == [[second + 2], [second + 3]]


def test_rates_defer(kit):
    kit.prefer("ann", rate={"limit": 2, "seconds": 60})
    seqs = [send(kit) for _ in range(5)]
    assert [each[1] for each in kit.deliveries()] == [[seq] for seq in seqs[:2]]
    kit.clock.turn(60)
    kit.work()
    assert len(kit.deliveries()) == 4
    kit.clock.turn(60)
    kit.work()
    assert [each[1] for each in kit.deliveries()] == [[seq] for seq in seqs]


def test_mute_and_snooze(kit):
    kit.append(1, "settings", {"subscription": "a", "muted": True, "snoozed_until": None})
    send(kit)
    until = as_text(START + HOUR)
    kit.append(1, "settings", {"subscription": "a", "muted": False, "snoozed_until": until})
    seq = send(kit)
    assert kit.deliveries() == []
    kit.clock.turn(3600)
    kit.work()
    assert kit.deliveries() == [("ann", [seq], "snoozed")]  # what was muted is not delivered
    later = as_text(START + 9 * HOUR)
    kit.append(1, "settings", {"subscription": "a", "muted": False, "snoozed_until": later})
    last = send(kit)
    kit.append(1, "settings", {"subscription": "a", "muted": False, "snoozed_until": None})
    kit.work()
    assert kit.deliveries()[1:] == [("ann", [last], "snoozed")]  # ended early


def test_a_mute_and_a_snooze_outlive_a_replacement(kit):
    kit.append(1, "settings", {"subscription": "a", "muted": True, "snoozed_until": None})
    kit.subscribe("a", "n > 2")
    send(kit)
    [_, row] = kit.rows(tables.subscriptions)
    assert (row.state, row.muted, kit.deliveries()) == ("active", True, [])
    until = as_text(START + HOUR)
    kit.append(1, "settings", {"subscription": "a", "muted": False, "snoozed_until": until})
    kit.subscribe("a", "n > 3")
    kit.work()
    kit.matcher.save_all()
    kit.new_matcher()
    seq = send(kit)
    [row] = kit.rows(tables.held)
    assert (row.seq, row.due) == (seq, START + HOUR)
    kit.subscribe("a", "n > 3", "bob")  # who has muted nothing
    seq = send(kit)
    assert kit.deliveries() == [("bob", [seq], None)]


def test_another_subscription_awake_delivers_now(kit):
    kit.subscribe("b", "n > 2")
    until = as_text(START + HOUR)
    kit.append(1, "settings", {"subscription": "a", "muted": False, "snoozed_until": until})
    seq = send(kit)
    assert kit.deliveries() == [("ann", [seq], None)]


def test_expiry(kit):
    kit.prefer("ann", snoozed_until=as_text(START + 2 * HOUR))
    send(kit, expirytime=as_text(START + HOUR))
    kept = send(kit, expirytime=as_text(START + 3 * HOUR))
    kit.clock.turn(2 * 3600)
    send(kit, expirytime=as_text(START))  # over before it came
    kit.work()
    assert kit.deliveries() == [("ann", [kept], "snoozed")]
    kit.subscribe("b", "n > 1", "bob", expires=as_text(START + 3 * HOUR))
    seq = send(kit)
    kit.clock.turn(3600)
    send(kit)
    assert [each for each in kit.deliveries() if each[0] == "bob"] == [("bob", [seq], None)]


def test_preferences_that_end_release_what_was_held(kit):
    kit.prefer("ann", digest={"count": 100})
    seqs = [send(kit), send(kit)]
    assert kit.deliveries() == []
    kit.prefer("ann")
    kit.work()
    assert [each[1] for each in kit.deliveries()] == [[seq] for seq in seqs]


def test_sinks_get_what_is_released(kit):
    kit.subscribe("hook", "n > 1", sink="https://example.org/h")
    kit.subscribe("same", "n > 1", sink="https://example.org/h")
    kit.subscribe("other", "n > 1", sink="https://example.org/o")
    send(kit)
    assert [(row.delivery, row.sink, row.state) for row in kit.rows(tables.outbox)] == [
        (1, 0, "waiting"), (1, 1, "waiting"),
    ]  # fmt: skip
    kit.prefer("ann", digest={"count": 2})
    send(kit)
    assert len(kit.rows(tables.outbox)) == 2
    send(kit)
    assert len(kit.rows(tables.outbox)) == 4


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_or_doubled_whatever_the_clock_does(kit, seed):
    """Random preferences, a clock that jumps both ways, new matchers: in the end, when nobody
    wishes anything any more, every match has been delivered exactly once."""
    choose = random.Random(seed)
    kit.subscribe("b", "n > 3", "bob")
    expected = []
    for _ in range(60):
        draw = choose.random()
        who = choose.choice(["ann", "bob"])
        if draw < 0.5:
            n = choose.randrange(6)
            urgent = {"urgent": True} if choose.random() < 0.1 else {}
            seq = kit.publish({**message(n=n), **urgent})
            expected += [("ann", seq)] if n > 1 else []
            expected += [("bob", seq)] if n > 3 else []
        elif draw < 0.7:
            kit.prefer(who, **random_wishes(choose, kit.clock()))
        elif draw < 0.9:
            kit.clock.turn(choose.choice([1, 60, 3600, 86_400, -60, -7200, 400 * 86_400]))
        elif draw < 0.95:
            kit.new_matcher()
        if choose.random() < 0.6:
            kit.work()
    kit.prefer("ann")
    kit.prefer("bob")
    kit.work()
    assert kit.rows(tables.held) == []
    found = [(who, seq) for who, seqs, _ in kit.deliveries() for seq in seqs]
    assert sorted(found) == sorted(expected)


def random_wishes(choose, now):
    wishes = {}
    if choose.random() < 0.4:
        wishes["quiet"] = {"from": "20:00", "to": "08:00", "zone": "America/New_York"}
    if choose.random() < 0.3:
        wishes["digest"] = {"seconds": 3600, "count": choose.choice([2, 5])}
    if choose.random() < 0.3:
        wishes["rate"] = {"limit": 1, "seconds": 600}
    if choose.random() < 0.2:
        wishes["snoozed_until"] = as_text(now + HOUR)
    return wishes


SINK = "https://example.org/h"
MUTED = {"subscription": "a", "muted": True, "snoozed_until": None}
AWAKE = {"subscription": "a", "muted": False, "snoozed_until": None}
SNOOZED = AWAKE | {"snoozed_until": as_text(START + HOUR)}
NIGHT = {"subscriber": "ann", "preferences": {"quiet": {"from": "00:00", "to": "23:00"}}}
DAY = {"subscriber": "ann", "preferences": {}}
HOOK = {"id": "a", "subscriber": "ann", "context": "ann", "condition": "n > 1", "sink": SINK}
ENDED, PUT = ("unsubscribe", {"id": "a"}), ("subscribe", HOOK | {"sink": None})


FOLLOWED = [
    ([], ENDED, (1, 0, 1)),
    ([], PUT, (1, 0, 1)),
    ([NIGHT], ENDED, (0, 1, 0)),
    ([MUTED], ENDED, (0, 0, 0)),
    ([SNOOZED], PUT, (0, 1, 0)),
    ([], ("settings", MUTED), (1, 0, 1)),
    ([MUTED], ("settings", AWAKE), (0, 0, 0)),
    ([], ("settings", SNOOZED), (1, 0, 1)),
    ([], ("settings", NIGHT), (1, 0, 1)),
    ([NIGHT], ("settings", DAY), (1, 0, 1)),
]
"""Settings before a message, what follows it, and the numbers of rows that are delivered, held, and
in the outbox."""


@pytest.mark.parametrize(("before", "after", "rows"), FOLLOWED)
def test_what_follows_a_message_in_its_step_does_not_reach_it(kit, before, after, rows):
    assert followed(kit, before, after) == rows


def followed(kit, before, after):
    kit.append(1, "subscribe", HOOK)
    for settings in before:
        kit.append(1, "settings", settings)
    kit.work()
    kit.publish(message(n=5))
    kit.append(1, *after)
    kit.work()
    found = [kit.deliveries(), kit.rows(tables.held), kit.rows(tables.outbox)]
    return tuple(len(rows) for rows in found)


@pytest.mark.parametrize("wishes", [{"digest": {"seconds": 60}}, NIGHT["preferences"]])
@pytest.mark.parametrize("after", [ENDED, PUT, ("settings", MUTED)])
def test_what_is_held_is_sent_whatever_becomes_of_its_subscription(kit, wishes, after):
    kit.append(1, "subscribe", HOOK | {"expires": as_text(START + SECOND)})
    kit.prefer("ann", **wishes)
    seq = send(kit)
    kit.append(1, *after)
    kit.work()
    kit.matcher.save_all()
    kit.new_matcher()
    kit.clock.turn(12.5 * 3600)
    kit.work()
    assert [each[:2] for each in kit.deliveries()] == [("ann", [seq])]
    assert [row.delivery for row in kit.rows(tables.outbox)] == [1]
    assert kit.rows(tables.held) == []


@pytest.mark.parametrize("seed", range(4))
def test_steps_do_not_matter(tmp_path_factory, seed):
    """Entries that are taken together deliver what they do when each is taken alone."""
    found = []
    for alone in (True, False):
        choose = random.Random(seed)
        kit = Kit(tmp_path_factory.mktemp("kit"))
        for _ in range(80):
            kit.append(1, *random_entry(choose, kit.clock()))
            if choose.random() < 0.1:
                kit.work()
                kit.clock.turn(choose.choice([1, 3600, 5 * 3600]))
            if alone:
                kit.work()
        kit.work()
        kit.clock.turn(86_400)
        for who in ("ann", "bob"):
            kit.prefer(who)
        kit.work()
        assert kit.rows(tables.held) == []
        found.append((reached(kit), counted(kit)))
        kit.close()
    assert found[0] == found[1]
    assert len(found[0][0]) > 10


def random_entry(choose, now):
    id_ = choose.choice("abc")
    body = {"id": id_, "subscriber": "bob" if id_ == "c" else "ann", "context": None}
    draw = choose.random()
    if draw < 0.4:
        more = {"urgent": True} if choose.random() < 0.1 else {}
        if choose.random() < 0.2:
            more["expirytime"] = as_text(now + HOUR)
        return "events", [{**message(n=choose.randrange(6)), **more} for _ in range(2)]
    if draw < 0.6:
        body |= {"condition": "n > 1", "sink": choose.choice([None, SINK, SINK + id_])}
        body |= {"urgent": choose.random() < 0.1}
        return "subscribe", body
    if draw < 0.7:
        return "unsubscribe", body
    if draw < 0.85:
        until = as_text(now + HOUR) if choose.random() < 0.3 else None
        muted = choose.random() < 0.3
        return "settings", {"subscription": id_, "muted": muted, "snoozed_until": until}
    wishes = random_wishes(choose, now)
    wishes.pop("rate", None)  # it is of deliveries, and so of the order in which steps make them
    return "settings", {"subscriber": body["subscriber"], "preferences": wishes}


def reached(kit):
    """(subscriber, seq) -> the sinks that got it."""
    sinks = {}
    for row in kit.rows(tables.outbox):
        sinks.setdefault(row.delivery, set()).add(row.sink)
    found = {}
    for row in kit.rows(tables.deliveries):
        profiles = json.loads(row.profiles)
        for seq in [item[0] for item in profiles] if row.why == "digest" else [row.seq]:
            assert (row.subscriber, seq) not in found
            found[row.subscriber, seq] = sinks.get(row.id, set())
    return found


def counted(kit):
    return kit.matcher.tenants[1].books.matches.tolist()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC"])
def test_quiet_hours_by_the_minute(zone):
    """Against the clock on the wall, over the days when it is changed."""
    quiet = holding.preferences({"quiet": {"from": "22:30", "to": "02:30", "zone": zone}}).quiet
    wall = ZoneInfo(zone)
    for day in (datetime(2026, 3, 7), datetime(2026, 3, 28), datetime(2026, 10, 24)):
        moment = day.replace(tzinfo=UTC)
        for _ in range(3 * 24 * 12):
            moment += timedelta(minutes=5)
            now = int(moment.timestamp() * SECOND)
            local = moment.astimezone(wall)
            within = (local.hour, local.minute) >= (22, 30) or (local.hour, local.minute) < (2, 30)
            until = quiet.until(now)
            assert (until is not None) == within, local
            if until is not None:
                assert now < until <= now + 6 * HOUR


@pytest.mark.parametrize(
    "wishes",
    [
        {"quiet": {"from": "25:00", "to": "07:00"}},
        {"quiet": {"from": "22:00", "to": "22:00"}},
        {"quiet": {"from": "22:00", "to": "07:00", "zone": "Mars/Olympus"}},
        {"quiet": {"from": "22:00", "to": "07:00", "zone": "../../etc/passwd"}},
        {"digest": {"seconds": -1}},
        {"digest": {"count": 0}},
        {"rate": {"limit": 0}},
        {"unknown": 1},
    ],
)
def test_bad_preferences(wishes):
    with pytest.raises(InvalidValue, match="preferences"):
        holding.preferences(wishes)
