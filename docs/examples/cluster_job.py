"""A batch and a stream on a cluster, for ``spark-submit``: see docs/cluster.md.

spark-submit --py-files germane.zip cluster_job.py OUT
"""

import sys

from pyspark.sql import SparkSession

from germane import spark


def where(batches):
    """The file that an executor has imported germane from."""
    import pyarrow as pa

    import germane

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"file": [germane.__file__]})


def main(out):
    session = SparkSession.builder.appName("germane").getOrCreate()
    prices = [(2 * i, f"m{i}", 90.0 + i % 20) for i in range(1, 101)]
    messages = session.createDataFrame(prices, "seq long, id string, price double")
    profiles = session.createDataFrame(
        [
            (f"p{i}", f"c{i % 10}", "price BETWEEN context.limit - 1 AND context.limit + 1")
            for i in range(50)
        ],
        "id string, context string, condition string",
    )
    contexts = session.createDataFrame(
        [(f"c{i}", 90.0 + 2 * i) for i in range(10)], "id string, limit double"
    )
    found = spark.match(messages, profiles, contexts=contexts, shards=4)
    print("batch:", found.count(), "deliveries")

    messages.write.mode("overwrite").parquet(f"{out}/messages")
    query = spark.stream(
        session.readStream.schema(messages.schema).parquet(f"{out}/messages"),
        profiles,
        contexts=contexts,
        checkpoint=f"{out}/checkpoint",
        sink=f"{out}/deliveries",
        shards=4,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    print("stream:", session.read.parquet(f"{out}/deliveries").count(), "deliveries")
    files = session.range(2).repartition(2).mapInArrow(where, "file string").collect()
    print("executors have germane from:", sorted({row.file for row in files}))
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
