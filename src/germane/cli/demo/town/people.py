"""Who lives in the town: six with names and habits, and a crowd with one wish each.

What a person asks for is a condition as anybody can write it. A habit is a round of stops: a venue,
a task, and how many seconds it lasts.
"""

from typing import NamedTuple

import numpy as np

from germane.cli.demo.town.places import TOPICS, VENUES


class Stop(NamedTuple):
    """Somewhere to be, and what for."""

    venue: str
    task: str
    seconds: float


class Person(NamedTuple):
    """Somebody with a name."""

    id: str
    label: str
    says: str
    condition: str
    habit: tuple[Stop, ...]


NAMED = (
    Person(
        "ann", "Ann", "wants talks in the district where she is, except in an exam",
        "topic WITHIN 'Talks' AND place WITHIN context.place AND context.task <> 'exam'",
        (Stop("Library", "reading", 26), Stop("Main Hall", "exam", 20),
         Stop("Canteen", "lunch", 16), Stop("Bookshop", "shopping", 18)),
    ),
    Person(
        "ben", "Ben", "rides for a courier, wants to know what blocks the way ahead",
        "topic WITHIN 'Getting about' AND DISTANCE(position, context.position) <= 900",
        (Stop("Post Office", "loading", 8), Stop("Quay", "delivering", 8),
         Stop("Tram Depot", "delivering", 8), Stop("Theatre", "delivering", 8)),
    ),
    Person(
        "cleo", "Cleo", "looks for lunch, and walks further the hungrier she is",
        "topic WITHIN 'Food' AND context.task = 'lunch' "
        "AND DISTANCE(position, context.position) <= context.reach",
        (Stop("Lab", "work", 18), Stop("Market Square", "lunch", 34), Stop("Lab", "work", 14)),
    ),
    Person(
        "dora", "Dora", "plays the trumpet, wants all music unless she rehearses",
        "topic WITHIN 'Music' AND context.task <> 'rehearsal'",
        (Stop("Theatre", "rehearsal", 24), Stop("Café Linde", "break", 20),
         Stop("Bandstand", "leisure", 20)),
    ),
    Person(
        "emil", "Emil", "runs: paths and weather, while he is out",
        "topic WITHIN ('Running', 'Weather') AND context.task = 'sport'",
        (Stop("Running Track", "sport", 26), Stop("Central Station", "work", 22),
         Stop("Pond", "sport", 22)),
    ),
    Person(
        "fay", "Fay", "reports for the paper: whatever happens in the district where she is",
        "place WITHIN context.place",
        (Stop("Cathedral", "reporting", 24), Stop("Fish Hall", "reporting", 24),
         Stop("Arena", "reporting", 24), Stop("Food Hall", "reporting", 24)),
    ),
)  # fmt: skip

YOU = "you"
YOURS = (2240.0, 1190.0)  # metres, east of the market
_WISHES = sorted(set().union(*TOPICS.values()))


class Crowd(NamedTuple):
    """People without names: where each starts, what each wants, and how far each would walk."""

    ids: list[str]
    conditions: list[str]
    venues: list[str]
    reach: list[float]

    @classmethod
    def generate(cls, size: int, rng: np.random.Generator) -> "Crowd":
        """So many people, at random venues."""
        wishes = rng.choice(_WISHES, size)
        return cls(
            ids=[f"walker-{number}" for number in range(size)],
            conditions=[
                f"topic WITHIN '{wish}' AND DISTANCE(position, context.position) <= context.reach"
                for wish in wishes
            ],
            venues=[str(v) for v in rng.choice(sorted(VENUES), size)],
            reach=[float(r) for r in rng.choice([250, 400, 600, 900], size)],
        )
