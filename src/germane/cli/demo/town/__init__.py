"""The demo that starts everything: a town whose people move, and whose feeds reach some of them.

``places`` is the town, ``people`` who lives there and what they asked for, ``feeds/`` what is said;
``walking`` moves the people, ``stage`` starts the service and speaks to it as any client does, over
HTTP. Nothing is matched here: the page shows what the service delivered.
"""
