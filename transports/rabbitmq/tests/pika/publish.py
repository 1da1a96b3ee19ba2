"""Publishes a message with every property and every type of header value that pika can send, and prints it as JSON.

Usage: publish.py URL QUEUE
"""

import datetime
import decimal
import json
import sys

import pika

import described

NESTED = {
    "text": "St. Mary's \U0001f3e5",
    "list": [1, "two", None, [True, b"\x00\xff"], {"deep": decimal.Decimal("-3.14")}],
    "table": {"": "an empty name", "again": {"and": {"again": 1}}},
}
HEADERS = {
    "text": "St. Mary's \U0001f3e5",
    "bytes": b"\x00\xffbytes",
    "true": True,
    "small": 7,
    "negative": -7,
    "large": 2**40,
    "largest": 2**63 - 1,
    "decimal": decimal.Decimal("3.14"),
    "time": datetime.datetime(2026, 1, 2, 3, 4, 5),
    "nothing": None,
    "list": NESTED["list"],
    "nested": NESTED,
    "x-own": "not the broker's",
}
BODY = b"\xffnot UTF-8\x00"


def main(url, queue):
    properties = pika.BasicProperties(
        content_type="text/plain", content_encoding="identity", headers=HEADERS, delivery_mode=2, priority=3,
        correlation_id="c-7", reply_to="replies", expiration="600000", message_id="pika-1", timestamp=1_700_000_000,
        type="lab.result", user_id="guest", app_id="lab", cluster_id="one",
    )
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", queue, BODY, properties, mandatory=True)
    connection.close()
    # As pika would read it: a large int is a `long` then, and a time has a zone.
    as_read = pika.BasicProperties().decode(b"".join(properties.encode()))
    print(json.dumps(described.message(as_read, BODY)))


main(*sys.argv[1:])
