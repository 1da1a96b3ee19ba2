"""Prints the envelope of the first message, and what a reader gets of it."""

import base64
import json
import sys

from azure.storage.queue import QueueClient

account, queue = sys.argv[1:]
message = QueueClient.from_connection_string(account, queue).peek_messages()[0]
envelope = json.loads(message.content)
body = base64.b64decode(envelope["body"]).decode()
print(json.dumps({"id": envelope["id"], "body": body, "envelope": envelope, "expires": message.expires_on.year}))
