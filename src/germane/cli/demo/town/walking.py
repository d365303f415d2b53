"""Where everybody is: people walk to a venue, stay there, and walk on.

In: seconds that pass. Out: context changes, only of those whose context changed: a position for who
walks, a district where a border was crossed, a task where a habit begins another.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.cli.demo.town import people
from germane.cli.demo.town.places import DISTRICT_OF, VENUES, at, nearest_venue

NAMED_M_PER_S, CROWD_M_PER_S = 55.0, 30.0  # a day is short here
NEAR_M, FAR_M = 300.0, 1500.0  # how far one goes for lunch
TURNS = 8  # a walker of the crowd reports once in so many steps
Change = tuple[str, dict[str, Any]]  # context, values


class Walks:
    """The named people and the crowd, at some moment."""

    def __init__(self, crowd: people.Crowd, rng: np.random.Generator) -> None:
        self._rng = rng
        self._crowd = crowd
        self._venues = np.array(list(VENUES.values()), float)
        start = np.array([VENUES[v] for v in crowd.venues], float).reshape(-1, 2)
        self._at = start + rng.normal(0, 90, start.shape)
        self._to = self._somewhere(len(start))
        self._turn = 0
        self._named = [_Habit(person) for person in people.NAMED]

    def begin(self) -> Iterator[Change]:
        """Everybody's context at the start."""
        for habit in self._named:
            yield habit.person.id, habit.news()
        for k, name in enumerate(self._crowd.ids):
            x, y = self._at[k]
            yield name, {"position": at(x, y), "reach": self._crowd.reach[k]}
        district = DISTRICT_OF[nearest_venue(*people.YOURS)]
        yield people.YOU, {"position": at(*people.YOURS), "place": district, "task": "leisure"}

    def step(self, seconds: float) -> Iterator[Change]:
        """What changed while so many seconds passed."""
        for habit in self._named:
            change = habit.step(seconds)
            if change:
                yield habit.person.id, change
        self._stroll(seconds)
        for k in range(self._turn, len(self._at), TURNS):
            x, y = self._at[k]
            yield self._crowd.ids[k], {"position": at(x, y)}
        self._turn = (self._turn + 1) % TURNS

    def _stroll(self, seconds: float) -> None:
        ahead = self._to - self._at
        far = np.hypot(ahead[:, 0], ahead[:, 1])
        step = np.minimum(1.0, CROWD_M_PER_S * seconds / np.maximum(far, 1e-9))
        self._at += ahead * step[:, None]
        arrived = np.nonzero(far < 15)[0]
        leaving = arrived[self._rng.random(len(arrived)) < 0.05]
        self._to[leaving] = self._somewhere(len(leaving))

    def _somewhere(self, size: int) -> NDArray[np.float64]:
        chosen = self._venues[self._rng.integers(len(self._venues), size=size)]
        near: NDArray[np.float64] = chosen + self._rng.normal(0, 80, (size, 2))
        return near


class _Habit:
    """One person's round."""

    def __init__(self, person: people.Person) -> None:
        self.person = person
        self._stop = 0
        self._left_s = person.habit[0].seconds
        self._x, self._y = VENUES[person.habit[0].venue]
        self._reach = NEAR_M
        self._said: dict[str, Any] = {}

    def step(self, seconds: float) -> dict[str, Any]:
        """Walk, or wait; what changed of the context."""
        stop = self.person.habit[self._stop]
        if self._walk(VENUES[stop.venue], seconds):
            self._left_s -= seconds
            hungry = stop.task == "lunch"
            self._reach = min(self._reach + 40 * seconds, FAR_M) if hungry else NEAR_M
        if self._left_s <= 0:
            self._stop = (self._stop + 1) % len(self.person.habit)
            self._left_s = self.person.habit[self._stop].seconds
        return self.news()

    def news(self) -> dict[str, Any]:
        """What of the context was not said yet."""
        values = {
            "position": at(self._x, self._y),
            "place": DISTRICT_OF[nearest_venue(self._x, self._y)],
            "task": self.person.habit[self._stop].task,
            "reach": self._reach,
        }
        fresh = {name: value for name, value in values.items() if self._said.get(name) != value}
        self._said = values
        return fresh

    def _walk(self, to: tuple[float, float], seconds: float) -> bool:
        """Whether the person is there."""
        far = float(np.hypot(to[0] - self._x, to[1] - self._y))
        step = NAMED_M_PER_S * seconds
        if far <= step:
            self._x, self._y = to
            return True
        self._x += (to[0] - self._x) * step / far
        self._y += (to[1] - self._y) * step / far
        return False
