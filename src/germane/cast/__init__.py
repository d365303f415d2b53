"""Contextcast: messages addressed to contexts, aggregates of contexts, and routers that use them.

``Space`` says which attributes contexts have; ``Groups`` keeps a link's contexts, similar ones
together; ``Router`` forwards changes of groups and addressed messages; ``Overlay`` is a tree of
routers, ``Network`` the same in one pool of arrays, for simulations.
"""

from germane.cast.groups import Change, Groups
from germane.cast.network import Network
from germane.cast.overlay import Overlay
from germane.cast.router import USERS, Addressed, Delivery, Feedback, Router, Updates
from germane.cast.space import Address, Aggregate, Space, Where
from germane.cast.tuning import Tuner, Tuning
from germane.cast.types import Choice, Location, Number, Taxonomy

__all__ = [
    "Address",
    "Addressed",
    "Aggregate",
    "Change",
    "Choice",
    "Delivery",
    "Feedback",
    "Groups",
    "Location",
    "Network",
    "Number",
    "Overlay",
    "Router",
    "Space",
    "Taxonomy",
    "Tuner",
    "Tuning",
    "USERS",
    "Updates",
    "Where",
]
