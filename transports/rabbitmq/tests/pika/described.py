"""Messages as JSON that keeps the types of header values."""

import base64
import datetime
import decimal

PROPERTIES = [
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration",
    "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
]


def message(properties, body):
    headers = properties.headers or {}
    return {
        "properties": {name: getattr(properties, name) for name in PROPERTIES},
        "headers": {name: value(it) for name, it in headers.items()},
        "body": base64.b64encode(body).decode(),
    }


def value(it):
    """The Python type and the content: 7 and "7" and 7.0 differ."""
    return [type(it).__name__, content(it)]


def content(it):
    if isinstance(it, dict):
        return {name: value(inner) for name, inner in it.items()}
    if isinstance(it, list):
        return [value(inner) for inner in it]
    if isinstance(it, bytes):
        return base64.b64encode(it).decode()
    if isinstance(it, datetime.datetime):
        return it.isoformat()
    if isinstance(it, decimal.Decimal):
        return str(it)
    return it
