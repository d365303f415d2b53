"""The reproduction of paper Notification, at a tiny size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("reverse_geocoder")

from benchmarks import record
from benchmarks.notification.claims import CHECKS
from benchmarks.notification.experiments import HERE, load_parameters, longer, points, run
from benchmarks.notification.page import load_paper, page
from benchmarks.reproduction import read_lines, read_toml
from germane import ContentGraph


def tiny() -> dict:
    """Parameters for a few seconds; places of the whole world only beyond the paper."""
    parameters = load_parameters()
    parameters["budget"] |= {"rounds": 2, "cell_seconds": 0.02, "events": 30, "batch": 20}
    parameters["budget"] |= {"batches": 3, "checked_events": 30, "sampled_users": 50}
    return parameters


def test_every_statement_has_a_check() -> None:
    assert set(load_paper()["claims"]) == set(CHECKS)
    assert set(read_toml(HERE / "differences.toml")["claims"]) <= set(CHECKS)


def test_a_size_that_both_figures_show_is_run_once() -> None:
    chosen = points(load_parameters())
    assert len({(point.users, point.topics) for point in chosen}) == len(chosen)
    assert [p.shown_in for p in chosen].count(("users", "topics")) == 1


def test_lists_hold_everything_above_once() -> None:
    graph = ContentGraph.from_edges([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    a, b, d = (graph.number[name] for name in "abd")
    assert longer(graph, np.array([[d]])) == 4
    assert longer(graph, np.array([[d, d], [a, b]])) == (4 + 2) / (1 + 2)


@pytest.mark.slow
def test_a_tiny_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    parameters = tiny()
    parameters["contestants"][0]["up_to"] = 100
    run(0.01, tmp_path, 1, None, parameters=parameters, beyond=False)
    cells = read_lines(tmp_path, "cells")
    assert len(cells) == len(points(parameters)) * len(parameters["contestants"])
    for line in cells:
        if "skipped" not in line:
            assert line["answers_agree"]
            assert line["compared_events"] == 30
            assert line["times_ns"]
    assert [line["users"] for line in cells if "skipped" in line] == [1_000]  # scaled 100,000
    before = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "not run with more than 100 users" in before
    assert "Larger than the paper" not in before
    page(tmp_path, parameters=parameters)
    assert (tmp_path / "index.md").read_text(encoding="utf-8") == before
    for name in ("figure6", "figure7"):
        for ending in ("png", "svg"):
            assert (tmp_path / f"{name}.{ending}").stat().st_size > 1_000


@pytest.mark.slow
def test_beyond_the_paper_without_wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("GERMANE_WORDNET", str(tmp_path / "data.noun"))
    parameters = tiny()
    parameters["experiments"] = {"users": {"users": [1_000], "topics": [4_000]}}
    parameters["contestants"] = parameters["contestants"][2:]
    run(0.01, tmp_path, 1, None, parameters=parameters)
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "WordNet is not here" in text
    assert "A million users and the world" in text
    assert "were not observed" in text
    assert "content lists, compiled" in text
    assert not any(line.get("answers_agree") is False for line in read_lines(tmp_path, "cells"))


def test_a_page_says_when_answers_differ() -> None:
    from benchmarks.notification.claims import Run

    line = record.stamp({}) | {"contestant": "adaptive", "times_ns": [1], "answers_agree": False}
    assert Run([line], [], [], [], {}, {}).disagreements() == 1
