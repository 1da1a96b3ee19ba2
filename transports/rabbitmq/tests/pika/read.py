"""Prints the first message of a queue as JSON, and leaves it there.

Usage: read.py URL QUEUE
"""

import json
import sys
import time

import pika

import described

PATIENCE_SECONDS = 10


def main(url, queue):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    deadline = time.monotonic() + PATIENCE_SECONDS
    method = None
    while method is None:
        method, properties, body = channel.basic_get(queue)
        assert method or time.monotonic() < deadline, f"no message in {queue}"
    channel.basic_nack(method.delivery_tag, requeue=True)
    connection.close()
    print(json.dumps(described.message(properties, body)))


main(*sys.argv[1:])
