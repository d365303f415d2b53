"""The town of the demo: topics, places and where they are, as data. It lies in the open sea.

Coordinates are metres from the town's north-west corner; ``at`` makes positions of them.
"""

import math
from typing import NamedTuple

WIDTH, HEIGHT = 3000.0, 2000.0  # metres
NORTH, WEST = 54.2, 6.9
METRES = 111_320.0  # of a degree of latitude

DISTRICTS: dict[str, dict[str, tuple[float, float]]] = {
    "Campus": {
        "Library": (520, 420), "Main Hall": (790, 560), "Canteen": (580, 690), "Lab": (330, 590),
    },
    "Old Town": {
        "Cathedral": (1330, 860), "Cinema": (1560, 980), "Theatre": (1160, 1010),
        "Café Linde": (1430, 690),
    },
    "Market": {
        "Market Square": (1830, 1260), "Food Hall": (2010, 1090), "Bookshop": (1630, 1330),
    },
    "Harbour": {
        "Quay": (470, 1450), "Fish Hall": (770, 1370), "Ferry Pier": (290, 1700),
        "Boat House": (900, 1640),
    },
    "Station": {
        "Central Station": (2450, 720), "Tram Depot": (2720, 940), "Post Office": (2240, 880),
    },
    "Park": {
        "Bandstand": (1930, 360), "Pond": (2260, 280), "Playground": (1660, 400),
    },
    "Stadium": {
        "Arena": (2430, 1560), "Sports Hall": (2700, 1390), "Running Track": (2150, 1680),
    },
}  # fmt: skip
VENUES = {name: xy for venues in DISTRICTS.values() for name, xy in venues.items()}
DISTRICT_OF = {name: district for district, venues in DISTRICTS.items() for name in venues}

TOPICS = {
    "Life": ("Food", "Culture", "Sports", "Getting about", "Weather"),
    "Food": ("Lunch", "Coffee", "Stalls"),
    "Culture": ("Music", "Film", "Talks", "Stage"),
    "Sports": ("Football", "Running", "Rowing"),
    "Getting about": ("Trams", "Ferries", "Roads"),
}
TOPIC_EDGES = [(above, below) for above, many in TOPICS.items() for below in many]
PLACE_EDGES = [("Town", district) for district in DISTRICTS] + [
    (district, venue) for district, venues in DISTRICTS.items() for venue in venues
]


class Position(NamedTuple):
    """Degrees, as a context or a message has them."""

    latitude: float
    longitude: float


def at(x: float, y: float) -> Position:
    """The position of a point of the map."""
    east = x / (METRES * math.cos(math.radians(NORTH)))
    return Position(round(NORTH - y / METRES, 6), round(WEST + east, 6))


def nearest_venue(x: float, y: float) -> str:
    """The venue that is closest to a point of the map."""
    return min(VENUES, key=lambda name: math.dist(VENUES[name], (x, y)))
