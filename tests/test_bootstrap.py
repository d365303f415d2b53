"""A fresh clone sets itself up: what dev.py relies on, checked without a network."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = [
    line
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.fixture
def dev(monkeypatch):
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delattr(module.os, "execve")  # or it would go on instead of the tests
    return module


def test_old_pythons_can_read_dev_py():
    """They are to see a message, not a syntax error."""
    ast.parse((ROOT / "dev.py").read_text(encoding="utf-8"), feature_version=(3, 6))


def test_an_old_python_is_told_what_is_missing(dev, monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 8, 1))
    monkeypatch.setattr(dev.shutil, "which", lambda name: None)
    assert dev.main(["demo"]) == 1
    assert "needs Python 3.11 or newer; this is 3.8" in capsys.readouterr().err


def test_an_unknown_command_is_named(dev, capsys):
    assert dev.main(["foo"]) == 2
    assert "no command 'foo'" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="there, a program cannot become another")
@pytest.mark.parametrize("command", ["demo", "run"])
def test_a_command_is_the_program_and_not_a_child_of_it(dev, monkeypatch, command):
    """So a signal ends it, and leaves nothing behind."""
    became = []
    monkeypatch.setattr(dev, "install", lambda extras: None)
    monkeypatch.setattr(dev.os, "execve", lambda *given: became.append(given), raising=False)
    dev.main([command, "--help"])
    [(program, arguments, _)] = became
    assert program == arguments[0] == dev.PYTHON
    assert arguments[1:3] == ["-m", "germane.cli"]
    assert arguments[-1] == "--help"


def test_who_reads_no_further_sees_no_traceback():
    """As in ``dev.py --help | head -1``."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, ROOT / "dev.py", "--help"], stdout=writer, stderr=subprocess.PIPE
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_constraints_are_exact_versions_without_hosts_or_hashes():
    for pin in PINS:
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+)?", pin), pin


def test_every_direct_dependency_is_pinned():
    pinned = {pin.partition("==")[0] for pin in PINS} | {PROJECT["name"]}
    extras = PROJECT["optional-dependencies"].values()
    for wanted in [*PROJECT["dependencies"], *(name for extra in extras for name in extra)]:
        assert re.match(r"[\w-]+", wanted)[0] in pinned, wanted


def test_dev_py_asks_for_extras_that_exist(dev):
    for extras in dev.EXTRAS.values():
        assert set(extras) <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("words", [["--matcher", "spark"], ["--matcher=spark", "--port", "81"]])
def test_the_matcher_on_spark_brings_spark_and_java(dev, monkeypatch, words):
    asked = []
    monkeypatch.setattr(dev, "install", asked.append)
    monkeypatch.setattr(dev, "become", lambda command: 0)
    dev.main(["run", "serve"])
    dev.main(["run", "serve", *words])
    assert set(asked[1]) - set(asked[0]) == {"java", "spark"}


def test_an_installation_is_repeated_only_when_something_changed(dev, monkeypatch, tmp_path):
    calls = []
    pins = tmp_path / "constraints.txt"
    pins.write_text("a==1\n")
    monkeypatch.setattr(dev, "PINS", [str(pins)])
    monkeypatch.setattr(dev, "STAMP", str(tmp_path / "stamp.json"))
    monkeypatch.setattr(dev, "works", lambda *command: True)
    monkeypatch.setattr(dev, "installers", lambda: [("pip", ["pip", "install"])])
    monkeypatch.setattr(dev, "captured", lambda command: calls.append(command) or (0, ""))
    dev.install(["cli"])
    dev.install(["cli"])
    assert len(calls) == 1
    dev.install(["cli", "dev"])
    dev.install(["cli"])
    assert len(calls) == 2
    pins.write_text("a==2\n")
    dev.install(["cli"])
    assert len(calls) == 3
    assert calls[-1][-3].endswith("[cli,dev]")


def test_a_failed_installation_shows_the_installers_words(dev, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(dev, "STAMP", str(tmp_path / "stamp.json"))
    monkeypatch.setattr(dev, "works", lambda *command: True)
    monkeypatch.setattr(dev, "installers", lambda: [("pip", ["pip", "install"])])
    monkeypatch.setattr(dev, "captured", lambda command: (1, "no matching distribution"))
    with pytest.raises(SystemExit, match="1"):
        dev.install(["cli"])
    assert "no matching distribution" in capsys.readouterr().err
    assert not (tmp_path / "stamp.json").exists()
