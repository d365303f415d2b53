"""The commands, as a person types them."""

import json
import socket
import subprocess
import sys

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from germane.cli.app import app


@pytest.fixture
def germane(monkeypatch, tmp_path):
    """Run a command in an empty folder; gives exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments, stdin=None):
        result = CliRunner().invoke(app, arguments, input=stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_demo_tells_who_got_what_and_why_not(germane):
    code, out, _ = germane("demo", "--plain", "--fast")
    assert code == 0
    assert out.isascii()
    assert "26 events, 15 deliveries." in out
    first = out[out.index("  1 * Talk") : out.index("  2 ~ Ben")]
    assert "-> ann-talks" in first
    assert "-> cleo-talks" in first
    assert "x  ben-talks" in first
    assert "my unread (240) < 100 is false" in " ".join(first.split())
    assert "the same answers" in " ".join(out.split())


def test_demo_shows_unknown_as_such(germane):
    _, out, _ = germane("demo", "--plain", "--fast")
    hidden = out[out.index(" 24 * Talk") : out.index(" 25 - Cleo")]
    assert "my building (NULL) is unknown" in " ".join(hidden.split())


def test_match_reads_json_lines_and_goes_on_after_bad_ones(germane, tmp_path):
    profiles = write(
        tmp_path / "profiles",
        {"id": "dora", "condition": "price < context.limit", "context": "c"},
        {"id": "broken", "condition": "price <"},
        {"condition": "price < 3"},
        {"id": "all", "condition": "price < 9"},
    )
    contexts = write(tmp_path / "contexts", {"id": "c", "limit": 5})
    messages = '{"id": "m1", "price": 4}\nnope\n\n[1]\n{"price": 8}\n{"price": "x"}\n'
    code, out, err = germane("match", profiles, "--contexts", contexts, stdin=messages)
    assert code == 1
    assert [json.loads(line) for line in out.splitlines()] == [
        {"message": "m1", "profile": "all"},
        {"message": "m1", "profile": "dora"},
        {"message": 5, "profile": "all"},
    ]
    for place in (f"{profiles}:2:", f"{profiles}:3: 'id'", "stdin:2: not JSON", "stdin:4:"):
        assert place in err
    assert "stdin:6:" in err
    assert "number" in err[err.index("stdin:6:") :]


def test_match_explains(germane, tmp_path):
    profiles = write(tmp_path / "profiles", {"id": "p", "condition": "price < 9"})
    messages = write(tmp_path / "messages", {"price": 4})
    code, out, err = germane("match", profiles, messages, "--explain")
    assert (code, err) == (0, "")
    assert "price < 9" in json.loads(out)["why"]


def test_check_says_how_a_condition_is_understood(germane):
    code, out, _ = germane("check", "type = 'talk' AND (price < context.limit OR ABS(price) > 5)")
    assert code == 0
    for part in ("type", "string", "context.limit", "number", "price < context.limit"):
        assert part in out


def test_check_points_at_the_mistake(germane):
    code, _, err = germane("check", "price < ")
    assert code == 1
    assert "^" in err


def test_check_draws_nothing_below_an_empty_condition(germane):
    code, _, err = germane("check", "")
    assert code == 1
    assert err.strip() == "the condition is empty"


def test_the_demo_says_where_its_page_is_by_default(germane):
    _, out, _ = germane("demo", "--help")
    assert "by default 8010" in " ".join(out.replace("│", " ").split())


def test_version(germane):
    code, out, _ = germane("version")
    assert code == 0
    assert out.startswith("germane 0.")


def test_without_the_extra_the_remedy_is_named():
    code = "import sys; sys.modules['typer'] = None; import germane.cli; germane.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'germane[cli]'" in done.stderr


def test_an_unknown_index_is_named(germane, tmp_path):
    profiles = tmp_path / "profiles.jsonl"
    profiles.write_text('{"id": "p", "condition": "a < 1"}\n')
    code, _, err = germane("match", str(profiles), "--index", "agil", stdin="")
    assert code == 2
    assert "'agil'" in err


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_port_that_is_taken_is_said_at_once(germane, tmp_path, command):
    pytest.importorskip("fastapi")
    pytest.importorskip("feedparser")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        data = ["--data", str(tmp_path)] if command == "serve" else []
        code, _, err = germane(command, "--port", str(port), *data)
    assert code in (1, 2)
    assert f"cannot listen on 127.0.0.1:{port}" in err
    assert "choose another --port" in err
