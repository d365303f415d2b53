#!/usr/bin/env python3
"""Set up germane in this clone, then run it. Needs Python 3.11 or newer, and nothing else.

    python3 dev.py demo [...]      see the filter at work
    python3 dev.py test            every check: lint, types, layers, tests
    python3 dev.py test -k name    only pytest, with these arguments
    python3 dev.py run ...         any germane command, e.g. run check "price < 5"

The first run creates .venv and installs the project into it, with the exact versions of
constraints.txt. Later runs install again only when pyproject.toml or constraints.txt changed.
"""

# Standard library only, and a syntax that old Pythons can read: they should see a message.

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
BIN = os.path.join(VENV, "Scripts" if os.name == "nt" else "bin")
PYTHON = os.path.join(BIN, "python.exe" if os.name == "nt" else "python")
CONSTRAINTS = os.path.join(ROOT, "constraints.txt")
PINS = [os.path.join(ROOT, "pyproject.toml"), CONSTRAINTS]
STAMP = os.path.join(VENV, "germane-installed.json")

EXTRAS = {
    "demo": ["demo"],
    "run": ["cli"],
    "run demo": ["demo"],
    "run approx": ["cli", "xml"],
    "run reproduce": ["bench", "cli", "plots", "xml"],
    "run run": ["cli", "java", "spark", "sql"],
    "run serve": ["cli", "nats", "postgres", "service"],
    "run synonyms": ["cli", "xml"],
    "run fetch": ["agent", "cli"],
    "run learn": ["cli", "java", "service", "spark", "sql"],
    "test": "agent demo dev flights nats postgres service skos sql xml".split(),
}
CHECKS = [
    ("ruff check", ["-m", "ruff", "check", "."]),
    ("ruff format", ["-m", "ruff", "format", "--check", "."]),
    ("mypy", ["-m", "mypy"]),
    ("layers", ["-c", "from importlinter.cli import lint_imports_command as c; c()"]),
    ("pytest", ["-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q", "--durations=12"]),
]


def main(arguments):
    if sys.version_info < OLDEST:
        return use_newer_python(arguments)
    if not arguments or arguments[0] not in ("demo", "run", "test"):
        if arguments and arguments[0] not in ("-h", "--help", "help"):
            print("dev.py: there is no command %r\n" % arguments[0], file=sys.stderr)
        print(__doc__.strip())
        return 0 if arguments[:1] in (["-h"], ["--help"], ["help"]) else 2
    command, rest = arguments[0], arguments[1:]
    extras = EXTRAS.get(" ".join(arguments[:2]), EXTRAS[command])
    words = " ".join(rest).replace("=", " ").split()
    if "--matcher" in words and "spark" in words:
        extras = extras + ["java", "spark"]
    install(extras + (["flights"] if "--flights" in rest else []))
    if command == "demo":
        return become(["-m", "germane.cli", "demo"] + rest)
    if command == "run":
        return become(["-m", "germane.cli"] + rest)
    return call(["-m", "pytest"] + rest, ROOT) if rest else check_everything()


# ---------------------------------------------------------------- environment


def use_newer_python(arguments):
    """Go on with a newer interpreter if one is installed; else say what is missing."""
    for minor in (13, 12, 11, 14):
        newer = shutil.which("python3.%d" % minor)
        if newer and works(newer):
            say("this is Python %d.%d; going on with %s" % (sys.version_info[:2] + (newer,)))
            return subprocess.call([newer, os.path.abspath(__file__)] + arguments)
    found = "%d.%d at %s" % (sys.version_info[:2] + (sys.executable,))
    return fail(
        "germane needs Python %d.%d or newer; this is %s.\n" % (OLDEST + (found,))
        + "Install a newer Python, then run this file with it: python3.12 dev.py ..."
    )


def install(extras):
    """Bring .venv up to date: an installation is current if its pins and its extras are."""
    pins, stamp = digest(PINS), read_stamp()
    if stamp.get("pins") == pins and set(extras) <= set(stamp.get("extras", [])):
        return
    extras = sorted(set(extras) | set(stamp.get("extras", [])))
    if not works(PYTHON):
        make_venv()
    project = "%s[%s]" % (ROOT, ",".join(extras))
    say("installing germane[%s] with the versions of constraints.txt" % ",".join(extras))
    started, output = time.time(), ""
    for name, installer in installers():
        code, output = captured(installer + ["-e", project, "-c", CONSTRAINTS])
        if code == 0:
            say("installed with %s in %.0f s" % (name, time.time() - started))
            write_stamp(pins, extras)
            return
        print(output, file=sys.stderr)
        say("%s could not install the project; its words are above" % name)
    if not output:
        raise SystemExit(fail("neither uv nor pip can install into .venv.\n" + remedy()))
    raise SystemExit(fail("the installation failed; nothing was run."))


def make_venv():
    """Create .venv; without ensurepip (Debian splits it off), leave pip out and use another."""
    say("creating .venv with Python %d.%d" % sys.version_info[:2])
    has_pip = importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv")
    if has_pip:
        code, output = captured([sys.executable, "-m", "venv", "--clear", VENV])
        if code == 0:
            return
    if importlib.util.find_spec("venv"):
        code, output = captured([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV])
        if code == 0 and installers():
            return
    elif shutil.which("uv"):
        code, output = captured(["uv", "venv", "--clear", "--python", sys.executable, VENV])
        if code == 0:
            return
    else:
        output = ""
    if output:
        print(output, file=sys.stderr)
    shutil.rmtree(VENV, ignore_errors=True)
    raise SystemExit(fail("this Python cannot create a virtual environment with pip.\n" + remedy()))


def installers():
    """The ways to install into .venv that exist here, fastest first."""
    ways = []
    if shutil.which("uv"):
        ways.append(("uv", ["uv", "pip", "install", "--python", PYTHON]))
    if works(PYTHON, "-m", "pip", "--version"):
        ways.append(("pip", [PYTHON, "-m", "pip", "install", "--disable-pip-version-check"]))
    elif works(sys.executable, "-m", "pip", "--python", PYTHON, "--version"):
        ways.append(("pip", [sys.executable, "-m", "pip", "--python", PYTHON, "install"]))
    return ways


def remedy():
    version = "%d.%d" % sys.version_info[:2]
    return (
        "Any one of these helps:\n"
        "  Debian, Ubuntu:  apt install python3-venv   (or python%s-venv)\n"
        % version
        + "  or install uv, or a Python that brings ensurepip (python.org, pyenv, conda)"
    )


def digest(paths):
    total = hashlib.sha256(("%d.%d" % sys.version_info[:2]).encode())
    for path in paths:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()


def read_stamp():
    try:
        with open(STAMP, encoding="utf-8") as file:
            return json.load(file) if works(PYTHON) else {}
    except (OSError, ValueError):
        return {}


def write_stamp(pins, extras):
    with open(STAMP, "w", encoding="utf-8") as file:
        json.dump({"pins": pins, "extras": extras}, file)


# --------------------------------------------------------------------- running


def check_everything():
    results = []
    for name, arguments in CHECKS:
        say(name)
        started = time.time()
        code = call(arguments, ROOT)
        results.append((name, code, time.time() - started))
    print()
    for name, code, seconds in results:
        print("  %-12s %-6s %6.1f s" % (name, "ok" if code == 0 else "FAILED", seconds))
    failed = [name for name, code, _ in results if code != 0]
    print("\n" + ("all checks passed" if not failed else "failed: " + ", ".join(failed)))
    return 1 if failed else 0


def call(arguments, directory=None):
    """Run the environment's Python: the checks from the clone's root, commands from here."""
    sys.stdout.flush()
    try:
        return subprocess.call([PYTHON] + arguments, cwd=directory, env=environment())
    except KeyboardInterrupt:
        return 130


def become(arguments):
    """Go on as the environment's Python, so that signals reach it; call it where that cannot be."""
    if os.name == "nt":
        return call(arguments)
    sys.stdout.flush()
    return os.execve(PYTHON, [PYTHON] + arguments, environment())


def environment():
    clean = dict(os.environ)
    clean.pop("PYTHONHOME", None)
    clean["PATH"] = BIN + os.pathsep + clean.get("PATH", "")
    return clean


def captured(command):
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    except OSError as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode(errors="replace")


def works(*command):
    """Does this command run at all? A .venv of a removed Python, for one, does not."""
    return captured(list(command) + (["-c", ""] if len(command) == 1 else []))[0] == 0


def say(text):
    print("germane: " + text, flush=True)


def fail(text):
    print("germane: " + text, file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # who read this, `head` for one, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
