"""Prints the text of every message that becomes visible. Ends when the queue has no message that was not seen."""

import json
import sys
import time

from azure.storage.queue import QueueClient

account, queue = sys.argv[1:]
client = QueueClient.from_connection_string(account, queue)
texts, deadline = {}, time.monotonic() + 900
while time.monotonic() < deadline:
    for message in client.receive_messages(messages_per_page=32, visibility_timeout=3600):
        texts[message.id] = message.content
    if len(texts) >= client.get_queue_properties().approximate_message_count:
        break
    time.sleep(1)
print(json.dumps(list(texts.values())))
