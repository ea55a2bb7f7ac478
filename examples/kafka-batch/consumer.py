"""Takes orders in batches and stores each batch in one transaction; knows nothing of untwin but DATABASE_URL.

python consumer.py           from the Kafka of KAFKA_BOOTSTRAP; offsets are committed after the database has committed
python consumer.py --stdin   a line each from stdin
"""

import argparse
import json
import os
import sys
from itertools import islice

import psycopg

TABLE = """
    CREATE TABLE IF NOT EXISTS orders (
        id uuid PRIMARY KEY, item text NOT NULL, quantity int NOT NULL, received_at timestamptz NOT NULL DEFAULT now()
    )
"""
INSERT = "INSERT INTO orders (id, item, quantity) VALUES (%(id)s, %(item)s, %(quantity)s)"


def store(connection, messages):
    """Stores a batch: all of its rows, or none."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(INSERT, [json.loads(message) for message in messages])


def from_stdin(connection, size):
    lines = iter(sys.stdin.readline, "")
    while batch := list(islice(lines, size)):
        store(connection, batch)
        print(f"stored {len(batch)}", flush=True)


def from_kafka(connection, size):
    # Only needed here: with --stdin the example runs without Kafka.
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"],
            "group.id": "orders",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    while True:
        messages = consumer.consume(size, timeout=1.0)
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
        if messages:
            store(connection, [message.value() for message in messages])
            # Only now: what is not committed here is delivered again (at least once).
            consumer.commit(asynchronous=False)
            print(f"stored {len(messages)}", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--batch", type=int, default=1000, help="the most orders in one transaction")
    arguments.add_argument("--stdin", action="store_true")
    chosen = arguments.parse_args()
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, application_name="kafka-batch") as connection:
        connection.execute(TABLE)
        (from_stdin if chosen.stdin else from_kafka)(connection, chosen.batch)


if __name__ == "__main__":
    main()
