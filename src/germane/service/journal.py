"""Structured logs: a JSON object a line on standard error, without anything secret.

What is logged are ids, counts, times and reasons. Should a token get into a text all the same (in a
URL, in an error), it is cut out here.
"""

import logging
import re
import sys
from typing import Any

import structlog

SECRETS = re.compile(r"gm_[A-Za-z0-9_-]{20,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")


def configure(process: str, to: Any = None) -> None:
    """Log as this process, to standard error or somewhere else."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            without_secrets,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(to or sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)


def without_secrets(logger: Any, method: str, event: Any) -> Any:
    """Cut out what looks like a token or a password."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = SECRETS.sub("…", value)
    return event
