"""What a program with Microsoft's client does: foreign.py CONNECTION_STRING COMMAND QUEUE [TEXT...]. Prints JSON."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

from azure.core.exceptions import ResourceExistsError
from azure.storage.queue import QueueClient, ResourceTypes, TextBase64EncodePolicy, generate_account_sas

account, command, queue, *texts = sys.argv[1:]
policy = {"message_encode_policy": TextBase64EncodePolicy()} if command == "send64" else {}
client = QueueClient.from_connection_string(account, queue, **policy)


def create():
    try:
        client.create_queue()
    except ResourceExistsError:
        pass


if command == "create":
    create()
    print("null")
elif command in ("send", "send64"):
    create()
    print(json.dumps([client.send_message(text).id for text in texts]))
elif command == "send_many":
    create()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(client.send_message, (f"m-{number}" for number in range(int(texts[0])))))
    print("null")
elif command == "sas":
    key = client.credential.account_key
    services, permissions = ResourceTypes(service=True, container=True, object=True), "rwlacup"
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    print(json.dumps(generate_account_sas(client.account_name, key, services, permissions, soon)))
elif command == "clear":
    client.clear_messages()
    print("null")
elif command == "count":
    print(client.get_queue_properties().approximate_message_count)
elif command == "peek":
    seen = client.peek_messages(max_messages=32)
    print(json.dumps([{"text": it.content, "dequeue_count": it.dequeue_count} for it in seen]))
else:
    sys.exit(f"unknown command {command}")
