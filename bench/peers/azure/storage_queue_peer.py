"""Times Microsoft's asynchronous client for Python: put a message, receive one, delete it, several at a time."""

import argparse
import asyncio
import base64
import importlib.metadata
import json
import time

from azure.core.exceptions import ResourceExistsError
from azure.storage.queue.aio import QueueClient


def options():
    parser = argparse.ArgumentParser()
    for name in ("account", "queue"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("messages", "concurrency", "bytes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


async def work(queue, body, count):
    for _ in range(count):
        await queue.send_message(body)
        received = None
        while received is None:
            received = await queue.receive_message()
        await queue.delete_message(received)


async def main(given):
    body = base64.b64encode(b"x" * given.bytes).decode()
    async with QueueClient.from_connection_string(given.account, given.queue) as queue:
        try:
            await queue.create_queue()
        except ResourceExistsError:
            pass
        start = time.monotonic()
        count = given.messages // given.concurrency
        await asyncio.gather(*(work(queue, body, count) for _ in range(given.concurrency)))
        elapsed = time.monotonic() - start
        await queue.delete_queue()
    version = importlib.metadata.version("azure-storage-queue")
    settings = f"azure-storage-queue {version} (aio), {given.concurrency} at a time, {given.messages} messages"
    print(json.dumps({"peer": "python", "processed_per_second": given.messages / elapsed, "settings": settings}))


asyncio.run(main(options()))
