"""The benchmarks' own ground: workloads as stated, peers that agree, a page from raw lines."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

from benchmarks import record, workloads
from benchmarks.workloads import ATTRIBUTES, SELECTIVITIES, Events, quantise, rq, table2

# Workloads ---------------------------------------------------------------------------------------


def test_rq_has_the_stated_selectivities() -> None:
    work = rq(20_000, seed=3)
    messages = work.messages(300)
    for column, wanted in zip(work.order, SELECTIVITIES, strict=True):
        values = messages[:, column][:, None]
        inside = (work.lows[column] <= values) & (values <= work.highs[column])
        assert inside.mean() == pytest.approx(wanted, rel=0.15)


@pytest.mark.parametrize("n_profiles", [20_000, 80_000])
def test_rq_with_a_fixed_number_of_matches(n_profiles: int) -> None:
    work = rq(n_profiles, seed=5, n_matches=140)
    found = [
        ((work.lows <= m[:, None]) & (m[:, None] <= work.highs)).all(axis=0).sum()
        for m in work.messages(150)
    ]
    assert np.mean(found) == pytest.approx(140, rel=0.25)


def test_texts_say_exactly_what_the_arrays_say() -> None:
    work = rq(300, seed=2)
    for row, text in enumerate(work.conditions()):
        parts = text.replace(" BETWEEN ", " ").split(" AND ")
        for low_part, high in zip(parts[0::2], parts[1::2], strict=True):
            name, low = low_part.split()
            column = ATTRIBUTES.index(name)
            assert float(low) == work.lows[column, row]
            assert float(high) == work.highs[column, row]


def test_texts_can_be_made_in_pieces() -> None:
    work = rq(500, seed=2)
    whole = work.conditions()
    assert work.conditions(0, 200) + work.conditions(200) == whole
    assert work.conditions(490, 495) == whole[490:495]


def test_three_relevant_digits() -> None:
    values = np.array([[0.0, 0.12345, 1.2345], [12.345, 123.45, 9996.0]])
    assert quantise(values).tolist() == [[0.0, 0.123, 1.23], [12.3, 123.0, 10000.0]]


def test_table2_follows_the_papers_parameters() -> None:
    work = table2(20_000, seed=4)
    assert work.context_bound.mean() == pytest.approx(0.9, abs=0.01)
    messages = work.messages(200)
    around = work.epsilons[work.epsilon_class].T
    for column, wanted in zip(work.order, SELECTIVITIES, strict=True):
        distance = np.abs(work.centres[column] - messages[:, column][:, None])
        assert (distance <= around[column]).mean() == pytest.approx(wanted, rel=0.2)
    texts = work.conditions()
    assert sum("context." in text for text in texts) == work.context_bound.sum()


@pytest.mark.parametrize("upd_att", [0, 25, 100])
def test_updates_fall_where_they_should(upd_att: int) -> None:
    work = table2(1_000, seed=1)
    events = Events(work, [(0, 10_000)], upd_att=upd_att, delta_u=150, seed=1)
    steps = events.take(20)
    indexed = {ATTRIBUTES[column] for column in work.order[:2]}
    counts = dict.fromkeys(ATTRIBUTES, 0)
    for updates, _ in steps:
        for attribute, contexts, values in updates:
            counts[attribute] += len(contexts)
            assert contexts.min() >= 0
            assert contexts.max() < work.n_profiles
            assert (values >= 0).all()
            assert (values <= workloads.DOMAIN).all()
            assert (quantise(values) == values).all()
    total = sum(counts.values())
    assert total == 20 * 1_000  # UP = 10,000: one update a profile and message
    share = sum(counts[name] for name in indexed) / total
    assert share == pytest.approx(upd_att / 100, abs=0.02)


def test_an_event_sequence_can_be_replayed() -> None:
    work = table2(500, seed=1)
    replays = [Events(work, [(30, 1), (0, 5_000)], seed=9) for _ in range(2)]
    first = [step for _ in range(40) for step in replays[0].take(1)]
    second = replays[1].take(25) + replays[1].take(15)
    for (updates, message), (again, same) in zip(first, second, strict=True):
        assert (message == same).all()
        assert [u[0] for u in updates] == [u[0] for u in again]
        for (_, contexts, values), (_, contexts2, values2) in zip(updates, again, strict=True):
            assert (contexts == contexts2).all()
            assert (values == values2).all()
    values = work.centres.copy()
    for updates, _ in first:
        for attribute, contexts, new in updates:
            for context, value in zip(contexts, new, strict=True):
                column = ATTRIBUTES.index(attribute)
                assert abs(values[column, context] - value) <= 150 + 5  # five: half a digit
                values[column, context] = value
    assert (values == replays[0].values).all()


def test_rates_with_fractions_carry_over() -> None:
    work = table2(1_500, seed=1)
    events = Events(work, [(0, 1)], seed=1)  # 0.15 updates a message
    counts = [events.updates_before_next() for _ in range(1_000)]
    assert sum(counts) == pytest.approx(150, abs=1)


# Streams of Batching, Table 1 ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RQ-Z", "RQ-G", "RQ-U"])
def test_range_streams_match_about_as_often_as_the_papers(name: str) -> None:
    from benchmarks import streams

    work = streams.ranges(name, 20_000, seed=3)
    found = [len(work.matches(message)) for message in work.messages(400, seed=5)]
    assert np.mean(found) == pytest.approx(streams.SHARES[name] * 20_000, rel=0.25)
    assert (work.messages(50, seed=5) == work.messages(50, seed=5)).all()


def test_zipf_messages_take_few_values_on_four_attributes() -> None:
    from benchmarks import streams

    work = streams.ranges("RQ-Z", 100, seed=2)
    messages = np.concatenate([work.messages(5_000, seed=s) for s in (1, 2)])
    for column in work.order[:4]:
        _, counts = np.unique(messages[:, column], return_counts=True)
        assert len(counts) == 50
        assert counts.max() / counts.sum() == pytest.approx(0.222, rel=0.1)  # 1 / (1 + 1/2 + …)
    for column in work.order[4:]:
        assert len(np.unique(messages[:, column])) == len(messages)


def test_gaussian_messages_crowd_around_the_middle() -> None:
    from benchmarks import streams

    work = streams.ranges("RQ-G", 100, seed=2)
    messages = work.messages(5_000)
    for column, deviation in zip(work.order[:2], (250, 350), strict=True):
        assert messages[:, column].mean() == pytest.approx(5_000, abs=20)
        assert messages[:, column].std() == pytest.approx(deviation, rel=0.05)
    assert messages[:, work.order[2]].std() == pytest.approx(10_000 / 12**0.5, rel=0.05)


def test_point_profiles_share_two_attributes() -> None:
    from benchmarks import streams

    work = streams.pq(3_000, seed=4, n_values=5)
    texts = work.conditions(0, 1_000) + work.conditions(1_000)
    profiles = [dict(part.split(" = ") for part in text.split(" AND ")) for text in texts]
    assert all(len(profile) == 4 for profile in profiles)
    assert len(set.intersection(*(set(profile) for profile in profiles))) == 2
    assert len(set.union(*(set(profile) for profile in profiles))) == 32
    for row in (0, 999, 1_000, 2_999):
        names = [work.attributes[column] for column in work.columns[:, row]]
        assert profiles[row] == dict(zip(names, map(str, work.values[:, row]), strict=True))
    found = [len(work.matches(message)) for message in work.messages(500)]
    assert np.mean(found) == pytest.approx(3_000 / 5**4, rel=0.15)


@pytest.mark.parametrize("name", ["RQ-Z", "PQ"])
def test_streams_are_answered_as_defined(name: str) -> None:
    from benchmarks import engine, streams

    work = streams.pq(800, 6, n_values=4) if name == "PQ" else streams.ranges(name, 800, 6)
    f = engine.static_filter(work, **engine.options("agile"))
    messages = work.messages(40)
    for vector, message in zip(engine.arrange(f, messages, work.attributes), messages, strict=True):
        assert sorted(f.match_rows(vector)) == work.matches(message).tolist()


def test_mixed_rows_say_what_the_steps_say() -> None:
    pytest.importorskip("pyarrow")
    from benchmarks.mixed import Replay

    work = table2(300, seed=1)
    replay = Replay(work, 40, seed=3)
    values = work.centres.copy()
    seqs: list[int] = []
    messages = []
    for part in (replay.take(7), replay.take(5)):
        for event in part.to_arrow().to_pylist():
            seqs.append(event["seq"])
            set_here = {name: event[name] for name in ATTRIBUTES if event[name] is not None}
            if event["kind"] == "message":
                assert event["id"] == len(messages)
                messages.append([set_here[name] for name in ATTRIBUTES])
            else:
                ((name, value),) = set_here.items()
                values[ATTRIBUTES.index(name), event["id"]] = value
    assert seqs == list(range(12 * 41))
    assert (values == replay.events.values).all()
    steps = Events(work, [(0, 40 * 10_000 / 300)], seed=3).take(12)
    assert messages == [message.tolist() for _, message in steps]


# Peers -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def static_work() -> workloads.Ranges:
    return rq(3_000, seed=8)


def expected(work: workloads.Ranges, message: np.ndarray) -> np.ndarray:
    column = message[:, None]
    return np.flatnonzero(((work.lows <= column) & (column <= work.highs)).all(axis=0))


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("ColumnScan", "numba"),
        ("TwoColumnScan", "numba"),
        ("RowScan", "numba"),
        ("SortedNumpy", "numpy"),
        ("RTree", "rtree"),
        ("DuckDB", "duckdb"),
        ("DuckDBRange", "duckdb"),
        ("DuckDBBestFirst", "duckdb"),
        ("PolarsBins", "polars"),
    ],
)
def test_peers_agree(name: str, module: str, static_work: workloads.Ranges) -> None:
    pytest.importorskip(module)
    from benchmarks import joins, peers

    kinds = {kind.__name__: kind for kind in (*peers.PEERS, *joins.JOINS)}
    peer = kinds[name](static_work)
    messages = static_work.messages(60)
    # Bounds are closed: a message right on the bounds of a profile must find it.
    messages[0] = static_work.lows[:, 17]
    messages[1] = static_work.highs[:, 23]
    wanted = [expected(static_work, message) for message in messages]
    assert 17 in wanted[0]
    assert 23 in wanted[1]
    for message, rows in zip(messages, wanted, strict=True):
        assert peer.match(message).tolist() == rows.tolist()
    for rows, found in zip(wanted, peer.match_batch(messages), strict=True):
        assert found.tolist() == rows.tolist()
    peer.close()


def test_the_plain_scan_follows_updates() -> None:
    from benchmarks.peers import ContextScan

    work = table2(1_500, seed=6)
    scan = ContextScan(work)
    events = Events(work, [(0, 8_000)], seed=2)
    for _ in range(30):
        updates, message = events.take(1)[0]
        for attribute, contexts, values in updates:
            scan.update_many(contexts, attribute, values)
        assert scan.match_rows(message).tolist() == work.matches(events.values, message).tolist()


def test_digests_ignore_order_and_see_differences() -> None:
    assert record.digest([3, 1, 2]) == record.digest(np.array([1, 2, 3]))
    assert record.digest([1, 2]) != record.digest([1, 3])
    assert record.digest([]) != record.digest([0])


# The page ----------------------------------------------------------------------------------------


def tiny_parameters() -> dict:
    from benchmarks.agile.experiments import load_parameters

    parameters = load_parameters()
    parameters["budget"] |= {
        "warm_up_messages": 5,
        "warm_up_seconds": 0.01,
        "cell_seconds": 0.01,
        "least_seconds": 0.01,
        "rounds": 2,
    }
    parameters["burst"] |= {"phases": [[20, 1], [20, 1_000], [20, 1]], "batch": 10}
    parameters["skiplist"]["least_profiles"] = 1_000
    return parameters


def raw_lines(parameters: dict) -> dict[str, list[dict]]:
    """A run as it might have been observed, for the page step alone."""
    from benchmarks.agile.experiments import points

    head = record.stamp({}) | {"scale": 0.01, "profiles": 5_000, "seed": 1, "structure": "blocks"}
    counters = {"index_updates": 5, "postfiltered": 70, "escalations": 2, "deescalations": 1}
    steady = [
        head
        | {"strategy": strategy, "up": point.up, "upd_att": point.upd_att, "policy": point.policy}
        | {"delta_u": point.delta_u, "shown_in": point.shown_in, "answers_agree": True}
        | {"chunks": [[10, 50, 0.01 * (k + 1)], [12, 50, 0.011]], "counters": counters}
        for point in points(parameters)
        for k, strategy in enumerate([*parameters["strategies"], "PLAIN SCAN"])
    ]
    entries = [(name, None) for name in ("NOINDEX", "EAGER", "GBU")]
    entries += [("AGILE", policy) for policy in parameters["burst"]["policies"]]
    burst = [
        head
        | {"strategy": strategy, "policy": policy, "phases": parameters["burst"]["phases"]}
        | {"chunks": [[10, 5, 0.001 * (k + 1)]] * 6, "counters": counters, "complete": True}
        | {"answers_agree": True}
        for k, (strategy, policy) in enumerate(entries)
    ]
    return {"steady": steady, "burst": burst, "skiplist": steady[:25]}


def test_the_page_needs_only_raw_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.agile.page import page

    parameters = tiny_parameters()
    (tmp_path / "raw").mkdir()
    for name, lines in raw_lines(parameters).items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / "raw" / f"{name}.jsonl").write_text(text, encoding="utf-8")
    text = page(tmp_path, parameters=parameters).read_text(encoding="utf-8")
    for wanted in ("Table 3", "Table 4", "Table 5", "Table 6", "Figure 11", "Figure 15"):
        assert wanted in text
    assert "no data" not in text
    for number in range(11, 16):
        for ending in ("png", "svg"):
            assert (tmp_path / f"figure{number}.{ending}").stat().st_size > 1_000


def test_the_page_says_when_answers_differ(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.agile.page import page

    parameters = tiny_parameters()
    lines = raw_lines(parameters)["steady"]
    lines[3]["answers_agree"] = False
    (tmp_path / "raw").mkdir()
    body = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "raw" / "steady.jsonl").write_text(body, encoding="utf-8")
    assert "answers of the strategies differed" in page(tmp_path, parameters).read_text("utf-8")


@pytest.mark.parametrize(("plain_s", "weak"), [(0.02, False), (0.0001, True)])
def test_a_weak_baseline_shows_nothing(tmp_path: Path, plain_s: float, weak: bool) -> None:
    from benchmarks.agile.claims import LEANS_ON_NOINDEX, Run, remarks
    from benchmarks.agile.observations import Cell, Observations
    from benchmarks.agile.page import load_paper

    parameters = tiny_parameters()
    seconds = {"NOINDEX": 0.02, "EAGER": 0.01, "GBU": 0.01, "AGILE": 0.001, "PLAIN SCAN": plain_s}
    lines = raw_lines(parameters)["steady"]
    for line in lines:
        line["chunks"] = [[10, 50, seconds[line["strategy"]]]]
    run = Run(Observations([Cell(line) for line in lines], [], []), parameters)
    words = {remark.claim: remark.word for remark in remarks(run, load_paper()["claims"])}
    assert words["winner"] == ("not shown" if weak else "agrees")
    if weak:
        assert all(words[claim] != "agrees" for claim in LEANS_ON_NOINDEX)
    assert words["burst_during"] == "no data"


def test_a_burst_that_was_stopped_is_not_compared(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.agile.page import page

    parameters = tiny_parameters()
    lines = raw_lines(parameters)["burst"]
    lines[0] |= {"chunks": [], "complete": False}
    lines[1] |= {"chunks": lines[1]["chunks"][:3], "complete": False}
    (tmp_path / "raw").mkdir()
    body = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "raw" / "burst.jsonl").write_text(body, encoding="utf-8")
    text = page(tmp_path, parameters).read_text("utf-8")
    assert "stopped at 0" in text
    assert "stopped at 30" in text
    overall = next(line for line in text.splitlines() if "overall best approach" in line)
    assert "no data" in overall


def test_every_claim_of_the_paper_has_a_check() -> None:
    from benchmarks.agile.claims import CHECKS
    from benchmarks.agile.page import ABOUT, load_paper

    assert set(load_paper()["claims"]) == set(CHECKS)
    assert {claim for claims in ABOUT.values() for claim in claims} == set(CHECKS)


# germane on the workloads ------------------------------------------------------------------------


def test_strategies_answer_table2_as_defined() -> None:
    from benchmarks import engine

    work = table2(1_200, seed=6)
    for index in ("scan", "eager", "gbu", "agile"):
        f = engine.contextual_filter(work, **engine.options(index))
        events = Events(work, [(0, 3_000)], seed=2)
        for _ in range(25):
            steps = engine.prepared(f, events.take(1))
            message = work.messages(1024, seed=2 * 1_000_003)[events.n_messages - 1]
            _, (rows,) = engine.play(f, steps)
            assert sorted(rows) == work.matches(events.values, message).tolist()


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


def recorded(results: Path, name: str) -> dict:
    (path,) = results.glob(f"{name}-*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_batches_agree_with_each_other_and_with_joins(results: Path) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    from benchmarks import batches

    words = "--profiles 1500 --workloads RQ-Z PQ --batch-sizes 1 40 --strategies minib/pix"
    words += " --rounds 2 --turn 0.002 --warm-batches 2 --peer-batch 50 --peer-rounds 1"
    assert batches.main(words.split()) == 0
    seen = recorded(results, "batches")
    assert [(cell["workload"], cell["batch"]) for cell in seen["cells"]] == [
        ("RQ-Z", 1),
        ("RQ-Z", 40),
        ("PQ", 1),
        ("PQ", 40),
    ]
    assert len(seen["peers"][0]["rates"]) == 5
    assert len(seen["bars"]) == 4 + 2 + 3


def test_interleaved_events_give_the_same_answers_every_way(results: Path) -> None:
    from benchmarks import interleaved

    words = "--profiles 1200 --messages 60 --updates 1800 --rounds 3 --part 7 --sample 5"
    assert interleaved.main([*words.split(), "--warm-messages", "6"]) == 0
    seen = recorded(results, "interleaved")
    assert seen["compared_messages"] == 6 + 3 * 5
    assert sum(chunk[0] for chunk in seen["chunks"]["process"]) == 60


def test_a_batch_streams_out_in_chunks(tmp_path: Path) -> None:
    from argparse import Namespace

    from benchmarks import stream_memory

    path = tmp_path / "saved.germane"
    chosen = Namespace(profiles=2_000, messages=120_000, max_mib=1, seed=1, path=str(path))
    stream_memory.child_build(chosen)
    seen = stream_memory.child_stream(chosen)
    assert seen["answers_agree"]
    assert seen["chunks"] > 1
    assert seen["largest_chunk_bytes"] <= 2**20


@pytest.mark.slow
def test_a_tiny_run_of_the_experiments(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.agile import page, run
    from benchmarks.agile.observations import load

    parameters = tiny_parameters()
    for name, values in (("up", [1, 1_000]), ("upd_att", [25, 100]), ("delta_u", [150, 2_500])):
        parameters["experiments"][f"vary_{name}"]["values"] = values
    run(0.002, tmp_path, 1, None, parameters=parameters)
    seen = load(tmp_path)
    assert not seen.disagreements()
    assert all(cell.n_messages > 0 for cell in seen.steady + seen.burst + seen.skiplist)
    before = (tmp_path / "index.md").read_text(encoding="utf-8")
    page(tmp_path, parameters=parameters)
    assert (tmp_path / "index.md").read_text(encoding="utf-8") == before


# The reproduction of Batching ---------------------------------------------------------------------


def small_batching() -> dict:
    """Parameters of Batching for a second or two."""
    from benchmarks.batching.experiments import load_parameters

    parameters = load_parameters()
    parameters["messages"] = 600
    parameters["budget"]["seconds"] |= {"cell": [0.002, 0.002], "warm_up": [0, 0]}
    parameters["budget"]["seconds"] |= {"longest_batch": [1_000, 1_000]}  # no batch is left out
    parameters["budget"] |= {"rounds": 2, "warm_up_messages": 10, "least_warm_up_batches": 1}
    parameters["budget"] |= {"warm_up_batches": 2, "stream_from": 150, "checked_messages": 50}
    for experiment in parameters["experiments"]:
        fewest = [75] if experiment["name"] == "sensitivity" else [1, 75, 150]
        experiment["batch_sizes"] = dict.fromkeys(experiment["batch_sizes"], fewest)
    return parameters


def batching_lines(parameters: dict) -> dict[str, list[dict]]:
    """A run as it might have been observed: batches of n are n ** 0.2 times as fast."""
    from benchmarks.batching.contest import STAGES, contestants

    head = record.stamp({}) | {"scale": 0.01, "profiles": 5_000, "seed": 1}
    head |= {"stage_ns": dict.fromkeys(STAGES, 10**6), "answers_agree": True}
    lines: dict[str, list[dict]] = {}
    for experiment in parameters["experiments"]:
        name = experiment["name"]
        for stream, sizes in experiment["batch_sizes"].items():
            for n in sizes:
                entries = contestants(parameters["contestants"][name])
                for k, entry in enumerate([e for e in entries if not e.only or n in e.only]):
                    batched = entry.strategy != "unbatched/pix"
                    seconds = n / 1_000 / (n**0.2 * (1 + k % 3) if batched else 1)
                    line = {"stream": stream, "structure": experiment["structure"]}
                    line |= {"contestant": entry.name, "strategy": entry.strategy}
                    line |= {"grouping": entry.grouping, "batch_size": n, "call": n}
                    line |= {"turns": [[n, 1, seconds]] * 2}
                    line |= {"counters": {"messages": 2**k, "minibatches": 1}}
                    if batched and n > entry.up_to:
                        line |= {"turns": [], "expected_batch_s": 99.0}
                    lines.setdefault(name, []).append(head | line)
    return lines


def write_lines(out: Path, lines: dict[str, list[dict]]) -> None:
    (out / "raw").mkdir()
    for name, own in lines.items():
        text = "".join(json.dumps(line) + "\n" for line in own)
        (out / "raw" / f"{name}.jsonl").write_text(text, encoding="utf-8")


def paper_speeds():
    from benchmarks.batching.latency import Speeds
    from benchmarks.batching.page import load_paper

    paper = load_paper()
    told = paper["speedups"]
    rates = tuple(paper["unbatched"] * speedup for speedup in told["speedup"])
    return paper, Speeds(tuple(told["batch_sizes"]), rates)


def test_the_latency_model_gives_the_papers_table() -> None:
    from benchmarks.batching.latency import within

    paper, speeds = paper_speeds()
    table = paper["table5"]
    for latency_ms, speedup in zip(table["latencies_ms"], table["speedup"], strict=True):
        allowed = within(speeds, latency_ms / 1e3)
        assert allowed.speedup == pytest.approx(speedup, rel=0.05)
        assert 2 * allowed.batch_size / speeds.rate(allowed.batch_size) <= latency_ms / 1e3
    assert within(speeds, 1e-6).speedup == 1


def test_the_burst_comes_close_to_the_papers_table() -> None:
    from benchmarks.batching.latency import burst

    paper, speeds = paper_speeds()
    table = paper["table6"]
    for kind, tolerance in (("unbatched", 0.05), ("batched", 0.35)):
        for i, duration_ms in enumerate(table["bursts_ms"]):
            batched = kind == "batched"
            seen = burst(speeds, paper["burst_rate"], duration_ms / 1e3, batched)
            assert seen.average_ms == pytest.approx(table[f"{kind}_avg"][i], rel=tolerance)
            assert seen.most_ms == pytest.approx(table[f"{kind}_max"][i], rel=tolerance)


@pytest.mark.parametrize("arrival_rate", [100, 449, 3_000])
def test_a_burst_message_by_message(arrival_rate: float) -> None:
    from benchmarks.batching.latency import burst

    _, speeds = paper_speeds()
    free, waited = 0.0, []
    for i in range(round(arrival_rate * 0.5)):
        arrived = i / arrival_rate
        free = max(free, arrived) + 1 / 450
        waited.append(1e3 * (free - arrived))
    seen = burst(speeds, arrival_rate, 0.5, batched=False)
    assert seen.average_ms == pytest.approx(np.mean(waited))
    assert seen.most_ms == pytest.approx(max(waited))
    if arrival_rate < 450:  # nobody ever waits, so there is nothing to batch
        assert burst(speeds, arrival_rate, 0.5, batched=True).largest_batch == 1


def test_every_claim_of_batching_has_a_check() -> None:
    from benchmarks.batching.claims import CHECKS
    from benchmarks.batching.experiments import HERE
    from benchmarks.batching.page import load_paper
    from benchmarks.reproduction import read_toml

    assert set(load_paper()["claims"]) == set(CHECKS)
    assert set(read_toml(HERE / "differences.toml")["claims"]) <= set(CHECKS)


def test_the_page_of_batching_needs_only_raw_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.batching.experiments import load_parameters
    from benchmarks.batching.page import page

    parameters = load_parameters()
    write_lines(tmp_path, batching_lines(parameters))
    text = page(tmp_path).read_text(encoding="utf-8")
    for wanted in ("Figures 6 and 7", "Figure 8", "Figure 9", *[f"Table {k}" for k in range(2, 7)]):
        assert wanted in text
    assert "were not observed" not in text.partition("## Figures 6 and 7")[0]
    for name in ("figure6", "figure6_skiplist", "figure7", "figure8", "figure9"):
        for ending in ("png", "svg"):
            assert (tmp_path / f"{name}.{ending}").stat().st_size > 1_000


def test_the_page_of_batching_without_skip_lists(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.batching.page import page

    parameters = small_batching()
    lines = batching_lines(parameters)["strategies"]
    lines = [line for line in lines if line["structure"] == "blocks" and line["stream"] == "RQ-Z"]
    lines[4]["answers_agree"] = False
    write_lines(tmp_path, {"strategies": lines})
    text = page(tmp_path, parameters=parameters).read_text(encoding="utf-8")
    assert "answers of the strategies differed" in text
    assert "Figure 8" not in text
    assert "On the paper's own structures" not in text


@pytest.mark.slow
def test_a_tiny_run_of_batching(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.batching import page, run
    from benchmarks.batching.observations import load

    parameters = small_batching()
    run(0.002, tmp_path, 1, None, parameters=parameters)
    seen = load(tmp_path)
    assert not seen.disagreements()
    for cells in seen.cells.values():
        assert all(cell.n_messages > 0 for cell in cells)
        assert all(cell.line["compared_messages"] > 0 for cell in cells)
    before = (tmp_path / "index.md").read_text(encoding="utf-8")
    page(tmp_path, parameters=parameters)
    assert (tmp_path / "index.md").read_text(encoding="utf-8") == before


# The reproduction of ApproXFilter -----------------------------------------------------------------


@pytest.fixture(scope="module")
def library():
    pytest.importorskip("lxml")
    from benchmarks.library import Library

    return Library(seed=3)


def test_a_library_is_as_stated(library) -> None:
    from benchmarks.library import Library

    documents = library.documents(200)
    assert np.mean([len(document) for document in documents]) == pytest.approx(1_400, rel=0.05)
    assert np.mean([d.count("</") for d in documents]) == pytest.approx(22, abs=1.5)
    profiles = library.profiles(2_000)
    assert {profile.count('"') // 2 for profile in profiles} == {1, 2, 3, 4}
    assert {profile.count("[") - 1 for profile in profiles} == {1, 2, 3, 4}
    assert any("[@lang" in profile for profile in profiles)
    assert len(set(profiles)) == len(profiles)
    again = Library(seed=3)
    assert again.documents(30) == documents[:30]
    assert again.profiles(100) == profiles[:100]


def test_xpath_says_what_a_pattern_says_without_transformations(library) -> None:
    from benchmarks.approximate import exact
    from benchmarks.library import XPaths, subscribe
    from germane import Filter, Transformations

    documents = [*library.documents(40), "<a b='x y'><c>One<d>two  Three</d>four</c></a>"]
    patterns = [
        *library.profiles(700),
        *("a", "b", "@b", "c[d]", "d[c]", '@b["x"]', '@b["x y"]', '@b["y x"]', "@b[c]", "a[@b]"),
        *('a["x"]', 'c["x"]', 'a["two three"]', 'c["one two"]', 'd["one"]', 'c[d["THREE"]]'),
        *('a[c["one"] and @b["y"]]', 'a[d["none"] or c["four"]]', 'a[(d or e) and (f or "on")]'),
    ]
    f = Filter(transformations=Transformations())
    subscribe(f, patterns, 1)
    answers = exact(f, documents)
    assert sum(map(len, answers)) > 20
    for folded in (False, True):
        paths = XPaths(patterns, folded)
        assert [paths.find(paths.parse(document)) for document in documents] == answers


def test_approximate_matches_without_a_cost_are_those_of_xpath(library, results: Path) -> None:
    from benchmarks import approximate

    words = "--profiles 200 --more 400 --documents 20 --sample 10 --rounds 2 --turn 0.002"
    assert approximate.main(words.split()) == 0
    seen = recorded(results, "approximate")
    assert seen["answers_agree"]
    assert [line["profiles"] for line in seen["sizes"]] == [200, 200, 400, 400]
    assert len(seen["bars"]) == 7
    assert all(len(seconds) == 2 for seconds in seen["seconds"].values())


def test_every_claim_of_approxfilter_has_a_check(library) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.approximation.claims import CHECKS
    from benchmarks.approximation.experiments import HERE
    from benchmarks.approximation.page import load_paper
    from benchmarks.reproduction import read_toml

    assert set(load_paper()["claims"]) == set(CHECKS)
    assert set(read_toml(HERE / "differences.toml")["claims"]) <= set(CHECKS)


@pytest.mark.slow
def test_a_tiny_run_of_approxfilter(library, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.approximation import page, run
    from benchmarks.approximation.experiments import load_parameters
    from benchmarks.reproduction import read_lines

    parameters = load_parameters()
    parameters["budget"] |= {"rounds": 2, "cell_seconds": 0.02, "documents": 40, "batch": 20}
    parameters["matches"] |= {"profiles": 10_000, "documents": 20}
    parameters["sizes"] |= {"profiles": [2_500, 10_000], "beyond": [25_000]}
    for contestant in parameters["contestants"][:3]:
        contestant["up_to"] = 100
    run(0.01, tmp_path, 1, None, parameters=parameters)
    cells, models = read_lines(tmp_path, "cells"), read_lines(tmp_path, "models")
    assert [model["size"] for model in models] == [25, 100, 250]
    assert len(cells) == 2 * (1 + 5 * 2) + (3 + 3 * 2)
    assert [line["size"] for line in cells if "skipped" in line] == [250] * 3
    for line in cells + read_lines(tmp_path, "matches"):
        assert line.get("answers_agree", "skipped" in line)
    before = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "All strategies gave the same answers" in before
    page(tmp_path, parameters=parameters)
    assert (tmp_path / "index.md").read_text(encoding="utf-8") == before
    for name in ("figure8", "figure9"):
        for ending in ("png", "svg"):
            assert (tmp_path / f"{name}.{ending}").stat().st_size > 1_000
