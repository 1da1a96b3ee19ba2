"""A team that uses RabbitMQ with pika, and knows nothing of Bezoar. Prints JSON.

Usage: team.py declare|publish|get|peek|count URL NAME [ID]
"""

import base64
import json
import sys
import time
import urllib.parse
import urllib.request

import pika

PATIENCE_SECONDS = 30
KEY = "lab.blood"


def declare(channel, name):
    """An exchange and a work queue, a dead-letter exchange and queue, and another queue behind the exchange."""
    channel.exchange_declare(f"{name}.events", "topic", durable=True)
    channel.exchange_declare(f"{name}.dlx", "direct", durable=True)
    channel.queue_declare(f"{name}.dlq", durable=True)
    channel.queue_bind(f"{name}.dlq", f"{name}.dlx", "failed")
    arguments = {"x-dead-letter-exchange": f"{name}.dlx", "x-dead-letter-routing-key": "failed"}
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.queue_bind(name, f"{name}.events", "lab.*")
    channel.queue_declare(f"{name}.archive", durable=True)
    channel.queue_bind(f"{name}.archive", f"{name}.events", "#")


def publish(channel, name, message_id):
    properties = pika.BasicProperties(
        message_id=message_id, correlation_id="visit-3", type="lab.result", delivery_mode=2, headers={"ward": 7},
    )
    channel.confirm_delivery()
    channel.basic_publish(f"{name}.events", KEY, b"MSH|poison", properties, mandatory=True)


def get(channel, queue):
    """The next message of a queue, which is removed."""
    method, properties, body = wait_for_message(channel, queue)
    channel.basic_ack(method.delivery_tag)
    return {
        "exchange": method.exchange, "routing_key": method.routing_key, "message_id": properties.message_id,
        "correlation_id": properties.correlation_id, "headers": sorted(properties.headers or {}),
        "body": body.decode(),
    }


def peek(channel, queue):
    """The headers of the next message of a queue, which stays there."""
    method, properties, _ = wait_for_message(channel, queue)
    channel.basic_nack(method.delivery_tag, requeue=True)
    return properties.headers


def wait_for_message(channel, queue):
    deadline = time.monotonic() + PATIENCE_SECONDS
    method = None
    while method is None:
        method, properties, body = channel.basic_get(queue)
        assert method or time.monotonic() < deadline, f"no message in {queue}"
    return method, properties, body


def count(url, queue):
    """How many messages a queue has, by the management API."""
    parts = urllib.parse.urlsplit(url)
    request = urllib.request.Request(f"http://{parts.hostname}:{parts.port}/api/queues/%2F/{queue}")
    credentials = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()
    request.add_header("Authorization", f"Basic {credentials}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer).get("messages")


def main(what, url, *arguments):
    if what == "count":
        return count(url, *arguments)
    connection = pika.BlockingConnection(pika.URLParameters(url))
    work = {"declare": declare, "publish": publish, "get": get, "peek": peek}[what]
    done = work(connection.channel(), *arguments)
    connection.close()
    return done


print(json.dumps(main(*sys.argv[1:])))
