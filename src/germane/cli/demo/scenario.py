"""An afternoon on a campus, in two warehouses and at a small exchange, as data.

`CONTEXTS` and `PROFILES` stand at the start; `EVENTS` happen in order. A message may name a
profile that does not get it although one might think so (`missed`): the demo asks why.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Profile:
    id: str
    condition: str
    context: str | None = None


@dataclass(frozen=True)
class Message:
    text: str
    attributes: dict[str, Any]
    missed: str | None = None


@dataclass(frozen=True)
class Update:
    text: str
    context: str
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Subscribe:
    text: str
    profile: Profile


@dataclass(frozen=True)
class Unsubscribe:
    text: str
    profile_id: str


Event = Message | Update | Subscribe | Unsubscribe

CONTEXTS: dict[str, dict[str, Any]] = {
    "ann": {"building": "Main", "unread": 12, "last_appointment": 17},
    "ben": {"building": "Main", "unread": 240, "last_appointment": 18},
    "cleo": {"budget": 6},
    "north": {"bolts": 500},
    "south": {"bolts": 80},
    "dora": {"limit": 100},
    "emil": {"limit": 60},
}

_TALKS = (
    "type = 'talk' AND building = context.building "
    "AND time < context.last_appointment AND context.unread < 100"
)
_ORDERS = "type = 'order' AND quantity <= context.bolts"

PROFILES = [
    Profile("ann-talks", _TALKS, "ann"),
    Profile("ben-talks", _TALKS, "ben"),
    Profile("cleo-talks", "type = 'talk' AND topic IN ('databases', 'streams')"),
    Profile(
        "cleo-lunch",
        "type = 'lunch' AND price <= context.budget "
        "AND (dish LIKE '%soup%' OR dish LIKE '%curry%')",
        "cleo",
    ),
    Profile("north-orders", _ORDERS, "north"),
    Profile("south-orders", _ORDERS, "south"),
    Profile(
        "dora-band",
        "type = 'quote' AND symbol = 'ACME' "
        "AND price BETWEEN context.limit - 5 AND context.limit + 5",
        "dora",
    ),
    Profile("emil-bargains", "type = 'quote' AND price < context.limit AND volume >= 1000", "emil"),
]


def _talk(title: str, building: str, time: float, topic: str, missed: str | None = None) -> Message:
    hour, minute = int(time), round(time % 1 * 60)
    return Message(
        f"Talk on {topic}: {title}, {building}, {hour}:{minute:02}",
        {"type": "talk", "title": title, "building": building, "time": time, "topic": topic},
        missed,
    )


def _order(quantity: int, missed: str | None = None) -> Message:
    return Message(f"Order for {quantity} bolts", {"type": "order", "quantity": quantity}, missed)


def _quote(symbol: str, price: float, volume: int, missed: str | None = None) -> Message:
    return Message(
        f"Quote: {symbol} at {price}, {volume} pieces",
        {"type": "quote", "symbol": symbol, "price": price, "volume": volume},
        missed,
    )


def _lunch(dish: str, price: float, missed: str | None = None) -> Message:
    return Message(
        f"Lunch: {dish} for {price:.2f}", {"type": "lunch", "dish": dish, "price": price}, missed
    )


EVENTS: list[Event] = [
    _talk("Indexes that follow you", "Main", 16, "databases", missed="ben-talks"),
    Update("Ben reads his mail", "ben", {"unread": 40}),
    _talk("Indexes that follow you", "Main", 16, "databases"),
    _order(300, missed="south-orders"),
    Update("North ships 300 bolts", "north", {"bolts": 200}),
    _order(300, missed="north-orders"),
    Update("A truck arrives at South", "south", {"bolts": 900}),
    _order(300),
    _quote("ACME", 103, 200, missed="emil-bargains"),
    _quote("ACME", 108, 200, missed="dora-band"),
    Update("Dora raises her limit", "dora", {"limit": 106}),
    _quote("ACME", 108, 200),
    Update("Fay joins the exchange", "fay", {"limit": 100}),
    Subscribe(
        "Fay asks for an alarm",
        Profile(
            "fay-alarm",
            "type = 'quote' AND symbol = 'ACME' AND ABS(price - context.limit) > 20",
            "fay",
        ),
    ),
    _quote("ACME", 79, 1500, missed="dora-band"),
    Update("Emil raises his limit", "emil", {"limit": 85}),
    _quote("BOLT", 82, 5000),
    _lunch("pumpkin soup", 4.5),
    Update("Cleo buys a book", "cleo", {"budget": 4}),
    _lunch("red curry", 5.5, missed="cleo-lunch"),
    Update("Ann walks to the Library", "ann", {"building": "Library"}),
    _talk("Poems for engineers", "Library", 16.5, "poetry", missed="ben-talks"),
    Update("Ann hides where she is", "ann", {"building": None}),
    _talk("A river of tuples", "Library", 16.75, "streams", missed="ann-talks"),
    Unsubscribe("Cleo has heard enough talks", "cleo-talks"),
    _talk("Joins at dusk", "Main", 17.5, "databases", missed="ann-talks"),
]
