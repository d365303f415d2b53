"""The paper's world (§IV): routers, access networks, classes; contexts, updates, messages.

Everything is drawn from two seeded streams: one for the world, one for what happens in it. What
happens does not depend on how routers aggregate, so all thresholds see the same events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from germane.cast import Address, Location, Number, Space, Taxonomy, Where

UNIT = (0.0, 0.0, 1.0, 1.0)


def hot(places: np.ndarray, alpha: float) -> np.ndarray:
    """Parents of nodes: each joins the one that minimises alpha * distance + hops to the root."""
    n = len(places)
    parents, hops = np.zeros(n, np.int64), np.zeros(n)
    for i in range(1, n):
        distance = np.hypot(*(places[:i] - places[i]).T)
        parents[i] = np.argmin(alpha * distance + hops[:i])
        hops[i] = hops[parents[i]] + 1
    return parents


def hierarchy(rng: np.random.Generator, lowest: int, highest: int, children: int) -> dict[Any, Any]:
    """A tree of a uniform height, with up to `children` below a node; drawn until it is so high."""
    height = int(rng.integers(lowest, highest + 1))
    while True:
        parents: dict[int, Any] = {0: None}
        level = [0]
        for depth in range(height):
            below = []
            for node in level:
                for _ in range(int(rng.integers(0, children + 1))):
                    below.append(len(parents))
                    parents[len(parents)] = node
            if not below:
                break
            level = below
            if depth == height - 1:
                return parents


@dataclass(frozen=True)
class User:
    """Where somebody is, and with which other attributes."""

    router: int
    values: dict[str, Any]


class World:
    """What does not change in a run."""

    def __init__(self, parameters: dict[str, Any], n_routers: int, seed: int) -> None:
        self.p = p = parameters["world"]
        rng = np.random.default_rng([seed, 0])
        self.places = rng.random((n_routers, 2))
        self.parents = hot(self.places, float(np.sqrt(n_routers)))
        n_access = max(1, round(p["access_share"] * n_routers))
        self.access = np.sort(rng.choice(n_routers, n_access, replace=False))
        edges = rng.uniform(*p["area_edge"], (n_access, 2)) / 2
        centre = self.places[self.access]
        low, high = np.clip(centre - edges, 0, 1), np.clip(centre + edges, 0, 1)
        self.area = {
            r: (*lo, *hi)
            for r, lo, hi in zip(self.access.tolist(), low.tolist(), high.tolist(), strict=True)
        }
        far = np.hypot(*(centre[:, None] - centre[None]).transpose(2, 0, 1))
        near = np.argsort(far, axis=1)[:, 1 : 1 + p["neighbours"]]
        self.near = {r: self.access[row] for r, row in zip(self.access.tolist(), near, strict=True)}
        self.trees = {
            f"class{i}": hierarchy(rng, *p["heights"], p["children"]) for i in range(p["classes"])
        }
        self.below = {name: _children(tree) for name, tree in self.trees.items()}
        self.means = rng.uniform(*p["means"], p["numbers"])
        self.deviations = rng.uniform(*p["deviations"], p["numbers"])

    def space(self, seen: dict[str, tuple[float, float]]) -> Space:
        """Types of attributes; a number's domain is what was seen of it."""
        types: dict[str, Any] = {"location": Location(UNIT)}
        types |= {name: Taxonomy(tree) for name, tree in self.trees.items()}
        types |= {f"number{i}": Number(*seen[f"number{i}"]) for i in range(self.p["numbers"])}
        return Space(types)


def _children(tree: dict[int, Any]) -> dict[int, list[int]]:
    below: dict[int, list[int]] = {node: [] for node in tree}
    for node, parent in tree.items():
        if parent is not None:
            below[parent].append(node)
    return below


class Life:
    """What happens: users who come, change and go, and messages to them."""

    def __init__(self, world: World, stream: list[int]) -> None:
        self.world, self.p = world, world.p
        self.rng = np.random.default_rng(stream)
        self.users: dict[int, User] = {}
        self._living: list[int] = []
        self._next = 0

    # drawing ---------------------------------------------------------------------------------

    def _node(self, name: str) -> int:
        """Down from the root, mostly to the bottom."""
        below, node = self.world.below[name], 0
        while below[node] and self.rng.random() < self.p["descend"]:
            node = below[node][self.rng.integers(len(below[node]))]
        return node

    def _number(self, name: str) -> float:
        i = int(name.removeprefix("number"))
        return float(self.rng.normal(self.world.means[i], self.world.deviations[i]))

    def _draw(self, name: str) -> Any:
        return self._node(name) if name.startswith("class") else self._number(name)

    def _class_name(self) -> list[str]:
        if self.rng.random() >= self.p["class_share"]:
            return []
        return [f"class{self.rng.integers(self.p['classes'])}"]

    def _number_names(self, fewest: int, most: int) -> list[str]:
        n = int(self.rng.integers(fewest, most + 1))
        return [f"number{i}" for i in self.rng.choice(self.p["numbers"], n, replace=False)]

    # users -----------------------------------------------------------------------------------

    def seen(self) -> dict[str, tuple[float, float]]:
        """The least and the greatest value of each number that users have now."""
        found: dict[str, list[float]] = {f"number{i}": [] for i in range(self.p["numbers"])}
        for user in self.users.values():
            for name, value in user.values.items():
                if name in found:
                    found[name].append(value)
        return {name: (min(held), max(held)) for name, held in found.items() if held} | {
            name: (0.0, 0.0) for name, held in found.items() if not held
        }

    def join(self) -> int:
        """Somebody new; returns who."""
        names = self._class_name() + self._number_names(*self.p["context_numbers"])
        router = int(self.world.access[self.rng.integers(len(self.world.access))])
        user, self._next = self._next, self._next + 1
        self.users[user] = User(router, {name: self._draw(name) for name in names})
        self._living.append(user)
        return user

    def leave(self) -> int:
        """Somebody goes; returns who."""
        at = int(self.rng.integers(len(self._living)))
        self._living[at], self._living[-1] = self._living[-1], self._living[at]
        user = self._living.pop()
        del self.users[user]
        return user

    def update(self) -> list[int]:
        """One update; returns whose contexts are not as they were."""
        if self.rng.random() >= self.p["change_share"]:
            return [self.leave(), self.join()]
        user = self._living[self.rng.integers(len(self._living))]
        router, values = self.users[user].router, self.users[user].values
        names = ["location", *values]
        name = names[self.rng.integers(len(names))]
        if name == "location":
            near = self.world.near[router]
            if len(near):
                router = int(near[self.rng.integers(len(near))])
        else:
            values = values | {name: self._draw(name)}
        self.users[user] = User(router, values)
        return [user]

    def context(self, user: int) -> tuple[int, dict[str, Any]] | None:
        """Router and attributes of a user; None for those who have gone."""
        if user not in self.users:
            return None
        router, values = self.users[user].router, self.users[user].values
        return router, {"location": self.world.area[router]} | values

    # messages --------------------------------------------------------------------------------

    def message(self, space: Space) -> tuple[int, Address]:
        """Source and address of a message."""
        source = int(self.rng.integers(len(self.world.parents)))
        centre = self.rng.random(2)
        edges = self.rng.uniform(*self.p["target_edge"], 2) / 2
        low, high = centre - edges, centre + edges
        wheres = [Where("location", "box", (*low.tolist(), *high.tolist()))]
        wheres += [Where(name, "within", self._node(name)) for name in self._class_name()]
        for name in self._number_names(*self.p["message_numbers"]):
            side = "<" if self.rng.random() < 0.5 else ">"
            wheres.append(Where(name, side, self._number(name)))
        return source, space.address(wheres)
