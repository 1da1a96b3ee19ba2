"""Sends plain and base64 texts; prints the id of each, and the body that a reader should get."""

import json
import sys

from azure.storage.queue import QueueClient, TextBase64EncodePolicy

account, queue = sys.argv[1:]
plain = QueueClient.from_connection_string(account, queue)
base64 = QueueClient.from_connection_string(account, queue, message_encode_policy=TextBase64EncodePolicy())
bodies = ["hello", "St. Mary's é 🏥", '{"RetryCount": 2}', "  spaced  ", "a & b < c", "test"]
sent = []
for client in (plain, base64):
    for body in bodies:
        sent.append({"id": client.send_message(body).id, "body": body})
print(json.dumps(sent))
