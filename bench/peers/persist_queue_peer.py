"""Times persist-queue on a backlog of 1 KiB items: take one, handle it, acknowledge it.

`ack` is SQLiteAckQueue, which survives a crash of the handler; `fifo` is FIFOSQLiteQueue, whose
`get` deletes at once: faster, but a crash loses the item.
"""

import importlib.metadata

import persistqueue

import peer

MODES = ("ack", "fifo")
# `get` walks past all acknowledged rows, so that they had better go soon.
CLEAR_EVERY = 100


def main():
    options = peer.options(MODES)
    queue = OPEN[options.mode](options.directory)
    for _ in range(options.messages):
        queue.put(peer.BODY)

    elapsed = peer.seconds(lambda: PROCESS[options.mode](queue, options.messages))

    if queue.qsize():
        raise SystemExit(f"{queue.qsize()} items were left")
    peer.report("persist-queue", options.messages, elapsed, describe(queue, options))


def process_ack(queue, messages):
    for number in range(1, messages + 1):
        item = queue.get(block=False, raw=True)
        handle(item["data"])
        queue.ack(id=item["pqid"])
        if number % CLEAR_EVERY == 0:
            queue.clear_acked_data(max_delete=CLEAR_EVERY, keep_latest=0)


def process_fifo(queue, messages):
    for _ in range(messages):
        handle(queue.get(block=False))


def handle(_body):
    pass


def describe(queue, options):
    # No public way to ask: the connection's own answer is worth the private name.
    synchronous = queue._getter.execute("pragma synchronous").fetchone()[0]
    version = importlib.metadata.version("persist-queue")
    return (
        f"persist-queue {version}, {type(queue).__name__}, auto_commit, WAL, "
        f"synchronous {synchronous}, {NOTE[options.mode]}, {options.messages} items"
    )


OPEN = {
    "ack": lambda directory: persistqueue.SQLiteAckQueue(directory, auto_commit=True),
    "fifo": lambda directory: persistqueue.FIFOSQLiteQueue(directory, auto_commit=True),
}
PROCESS = {"ack": process_ack, "fifo": process_fifo}
NOTE = {
    "ack": f"acknowledged rows cleared every {CLEAR_EVERY}",
    "fifo": "deletes before it handles",
}

if __name__ == "__main__":
    main()
