"""For people: what is germane to a person, learned, and where messages come from.

    ``Agent``      a person's user agent: feedback and contexts -> subscriptions and reasons
    ``Interests``  what it learned: which topics are liked in which context
    ``Fetcher``    feeds of the web, or of a folder -> messages (``Reader``, ``Gazetteer``, OPML)

Nothing here serves or stores: state is plain data that a caller keeps where it likes.
"""

from germane.agent.agent import Agent
from germane.agent.changes import Changes, Subscription
from germane.agent.feeds import DeadLetter, Feed, Reader, Seen
from germane.agent.fetcher import Fetcher
from germane.agent.gazetteer import Gazetteer, Place
from germane.agent.interests import Interests, Rule
from germane.agent.names import Names
from germane.agent.opml import Outline, read_opml, write_opml
from germane.agent.pieces import Piece, piece_of
from germane.agent.situations import Slot, context_at, daypart

__all__ = [
    "Agent", "Changes", "DeadLetter", "Feed", "Fetcher", "Gazetteer", "Interests", "Names",
    "Outline", "Piece", "Place", "Reader", "Rule", "Seen", "Slot", "Subscription", "context_at",
    "daypart", "piece_of", "read_opml", "write_opml",
]  # fmt: skip
