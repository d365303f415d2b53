"""The process that runs Spark: takes orders as lines of JSON, answers with lines of JSON.

    {"do": "start", "root": …, "scene": {…}, "settings": {…}}   start the stream, or start it again
    {"do": "settle"}                               wait until it has taken all that is published
    {"do": "stop"}                                 stop it

It ends with its input. Started by ``process.Driver``; everything else goes to standard error.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from test_spark import SCHEMA, TYPES

from germane import spark
from tests.faults.inputs import streams
from tests.faults.scenes import Scene
from tests.faults.sinks import target

COUNTED = ("rebuilt", "caught_up", "snapshots")


class Stage:
    """A session, and at most one stream."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.query: spark.Query | None = None
        self.set_before: list[str] = []

    def start(self, root: str, scene: dict[str, Any], settings: dict[str, str]) -> dict[str, Any]:
        for name in self.set_before:
            self.session.conf.unset(name)
        for name, value in settings.items():
            self.session.conf.set(name, value)
        self.set_before = list(settings)
        played, place = Scene(**scene), Path(root)
        contexts = [(c, *(v.get(name) for name in SCHEMA)) for c, v in played.contexts()]
        self.query = spark.stream(
            **streams(self.session, place, played.together, played.form),
            contexts=self.session.createDataFrame(contexts, f"id string, {TYPES}"),
            checkpoint=place / "checkpoint",
            sink=target(place, played.sink),
            shards=played.shards,
            together=played.together,
        )
        return {}

    def settle(self) -> dict[str, Any]:
        assert self.query is not None
        self.query.processAllAvailable()
        told = self.query.metrics().collect()
        return {name: sum(row[name] for row in told) for name in COUNTED}

    def stop(self) -> dict[str, Any]:
        assert self.query is not None
        self.query.stop()
        return {}


def main() -> None:
    """Answer until there are no more orders."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    about = json.loads(sys.argv[1])
    stage = Stage(spark.session(master=about["master"], settings=about["settings"]))
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(stage, order.pop("do"))(**order)
        except Exception as error:
            said = str(error).split("=== Streaming Query ===")[0]  # its plan, at length
            answer = {"error": f"{type(error).__name__}: {said[-6000:]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
