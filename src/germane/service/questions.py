"""What the api asks the matcher: a context, a check, figures of a filter, as they are now.

One JSON line each way over a Unix socket. Questions wait until the matcher is between two rounds,
so an answer belongs to one seq, which it names; nothing that takes long is asked.
"""

import socketserver
import threading
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import msgspec

from germane.model import ConditionError, GermaneError
from germane.service.cloudevents import context_values
from germane.service.subscriptions import Condition
from germane.service.tenant import WHOLE
from germane.service.values import always_tested, context_of, cost_of, cost_of_text, plain

if TYPE_CHECKING:
    from germane.service.matcher import Matcher

PATIENCE_S = 60.0
"""So long a question waits: a kernel that nobody has needed before may be compiled meanwhile."""
LONGEST = 1 << 20


class _Question:
    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.reply: dict[str, Any] = {}
        self.done = threading.Event()


class Questions:
    """A socket, and the questions that wait."""

    def __init__(self, path: Path) -> None:
        self._queue: SimpleQueue[_Question] = SimpleQueue()
        self.starting: str | None = None  # what the matcher does before it is ready
        with suppress(FileNotFoundError):
            path.unlink()
        self._server = _Server(str(path), _Handler)
        self._server.ask = self._ask
        path.chmod(0o600)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def waiting(self) -> bool:
        """Whether somebody asks, or has a line open to ask."""
        return self._server.n_lines > 0

    def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["ask"] == "ready" and self.starting is not None:
            return {"error": f"the matcher is starting: {self.starting}", "status": 503}
        question = _Question(body)
        self._queue.put(question)
        if not question.done.wait(PATIENCE_S):
            return {"error": "the matcher is busy", "status": 503}
        return question.reply

    def answer(self, matcher: "Matcher") -> None:
        """Answer everything that waits."""
        while True:
            try:
                question = self._queue.get_nowait()
            except Empty:
                return
            question.reply = reply(matcher, question.body)
            question.done.set()

    def close(self) -> None:
        """Take no more questions."""
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    ask: Any = None
    n_lines = 0


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        self.server.n_lines += 1
        try:
            while line := self.rfile.readline(LONGEST):
                answer = self.server.ask(msgspec.json.decode(line))
                self.wfile.write(msgspec.json.encode(answer) + b"\n")
        except (OSError, msgspec.MsgspecError):
            pass
        finally:
            self.server.n_lines -= 1


def reply(matcher: "Matcher", body: dict[str, Any]) -> dict[str, Any]:
    """The answer to one question."""
    tenant = matcher.tenants.get(body["tenant"])
    if tenant is None:
        tenant = matcher._tenant(body["tenant"])
    try:
        answer = ASKED[body["ask"]](tenant, body)
    except ConditionError as error:
        return {"error": str(error), "status": 422, "position": error.position}
    except GermaneError as error:
        return {"error": str(error), "status": 422}
    except Exception as error:  # a question must never end the matcher
        return {"error": repr(error), "status": 500}
    return {"answer": answer, "at_seq": tenant.seq}


def _context(tenant: Any, body: dict[str, Any]) -> Any:
    return context_of(tenant.filter, body["id"])


def _check(tenant: Any, body: dict[str, Any]) -> Any:
    condition = Condition(*body["condition"])
    tenant.filter.check(condition.text, body.get("context"), dialect=condition.dialect)
    return True


def _changes(tenant: Any, body: dict[str, Any]) -> Any:
    """For each change of a context, why it would be refused now, or None."""
    return [_refusal(tenant, id_, values) for id_, values in body["changes"]]


def _refusal(tenant: Any, id_: str, values: dict[str, Any]) -> str | None:
    try:
        held = context_values({"data": values}, tenant.books.graphs)
        tenant.filter.check_update(id_, held)
    except GermaneError as error:
        return str(error)
    return None


def _stats(tenant: Any, body: dict[str, Any]) -> Any:
    figures: dict[str, Any] = plain(tenant.filter.stats())
    if tenant.share != WHOLE:  # the shards have the profiles
        books = tenant.books
        figures |= {"profiles": len(books.by_id), "matches": int(books.matches.sum())}
        figures["shards"] = len(tenant.figures)
        for name in tenant.figures[0] if tenant.figures else ():
            figures[name] = sum(each[name] for each in tenant.figures)
    return figures


def _costs(tenant: Any, body: dict[str, Any]) -> Any:
    books = tenant.books
    numbers = books.active
    if body.get("number") is not None:
        numbers = [body["number"]]
    if (
        body.get("order") == "cost" and tenant.share == WHOLE
    ):  # those that no index finds, then those that match most
        outside = set(always_tested(tenant.filter))
        numbers.sort(key=lambda n: (n in outside, int(books.matches[n])), reverse=True)
    else:
        numbers.sort(key=lambda n: int(books.matches[n]), reverse=True)
    shown = numbers[: body["limit"]]
    if tenant.share == WHOLE:
        costs = [cost_of(tenant.filter, n) for n in shown]
    else:
        texts = tenant.texts(tenant.number, shown)
        costs = [cost_of_text(tenant.filter, n, texts[n]) for n in shown]
    return [
        {"number": n, "matches": int(books.matches[n]), **cost}
        for n, cost in zip(shown, costs, strict=True)
    ]


def _ready(tenant: Any, body: dict[str, Any]) -> Any:
    return True


ASKED = {
    "context": _context,
    "check": _check,
    "changes": _changes,
    "stats": _stats,
    "costs": _costs,
    "ready": _ready,
}
