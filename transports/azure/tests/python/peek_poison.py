"""Prints the first record of a poison queue."""

import sys

from azure.storage.queue import QueueClient

account, queue = sys.argv[1:]
print(QueueClient.from_connection_string(account, queue).peek_messages()[0].content)
