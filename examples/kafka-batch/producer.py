"""Sends orders as JSON messages, and now and then two with the same id; knows no database.

python producer.py --count 1000            to the Kafka of KAFKA_BOOTSTRAP
python producer.py --count 1000 --stdout   a line each on stdout
"""

import argparse
import asyncio
import json
import os
import random
import sys
import uuid

TOPIC = "orders"


async def orders(count, mistakes):
    """Yields orders as they come out of a queue, which holds them for a moment.

    A mistake is one of two that happen in the field: one mutable object is put into the queue twice, so that its second
    change shows in both; or a message is delivered twice.
    """
    queue = asyncio.Queue()
    for number in range(count):
        order = {"id": str(uuid.uuid4()), "item": f"item {number}", "quantity": 1}
        await queue.put(order)
        mistake = random.random() < mistakes and random.choice(["same object", "delivered twice"])
        if mistake == "same object":
            # Meant to be another order: but it is the object that waits in the queue already.
            order["item"], order["quantity"] = f"item {number}, again", 2
            await queue.put(order)
        while not queue.empty():
            message = json.dumps(queue.get_nowait())
            yield message
            if mistake == "delivered twice":
                yield message


def to_stdout(message):
    print(message)


def to_kafka():
    # Only needed here: with --stdout the example runs without Kafka.
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"]})

    def send(message):
        producer.produce(TOPIC, message)
        producer.poll(0)

    return send, producer.flush


async def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--count", type=int, default=sys.maxsize, help="how many orders; without end, if left out")
    arguments.add_argument("--mistakes", type=float, default=0.01, help="how many of them go wrong, from 0 to 1")
    arguments.add_argument("--pause", type=float, default=0.0, help="seconds between two")
    arguments.add_argument("--seed", type=int, help="for the same mistakes in every run")
    arguments.add_argument("--stdout", action="store_true")
    chosen = arguments.parse_args()
    random.seed(chosen.seed)
    send, flush = (to_stdout, sys.stdout.flush) if chosen.stdout else to_kafka()
    async for message in orders(chosen.count, chosen.mistakes):
        send(message)
        await asyncio.sleep(chosen.pause)
    flush()


asyncio.run(main())
