"""Times huey's consumer with SqliteHuey on a backlog of 1 KiB tasks with a no-op handler.

huey deletes a task before it runs it: a crash loses up to one task per worker. It is therefore
one transaction per task, where a queue with leases needs two.
"""

import importlib.metadata
import itertools
import os
import threading

from huey import SqliteHuey

import peer

# Four threads; its README starts four processes; one to eight made no clear difference on a busy machine.
WORKERS = 4
MODES = ("fsync", "default")


def main():
    options = peer.options(MODES)
    path = os.path.join(options.directory, "huey.db")
    fill(path, options.messages)
    huey, done = build(path, options)
    consumer = huey.create_consumer(workers=WORKERS, worker_type="thread")

    elapsed = peer.seconds(lambda: (consumer.start(), done.wait()))
    consumer.stop(graceful=True)

    if huey.pending_count():
        raise SystemExit(f"{huey.pending_count()} tasks were left")
    peer.report("huey", options.messages, elapsed, describe(huey, options))


def fill(path, messages):
    """Without fsync, as it is not timed."""
    huey = SqliteHuey(filename=path, fsync=False)
    noop = huey.task(name="noop")(lambda body: None)
    for _ in range(messages):
        noop(peer.BODY)
    huey.storage.close()


def build(path, options):
    huey = SqliteHuey(filename=path, **storage_options(options.mode))
    done = threading.Event()
    # `next` on a count is atomic under the interpreter's lock, so no lock of ours slows it down.
    count = itertools.count(1)

    @huey.task(name="noop")
    def noop(body):
        if next(count) == options.messages:
            done.set()

    return huey, done


def storage_options(mode):
    return {"fsync": True} if mode == "fsync" else {}


def describe(huey, options):
    synchronous = huey.storage.sql("pragma synchronous", results=True)[0][0]
    version = importlib.metadata.version("huey")
    return (
        f"huey {version}, {options.mode}, WAL, synchronous {synchronous}, "
        f"{WORKERS} threads, deletes before it runs, {options.messages} tasks"
    )


if __name__ == "__main__":
    main()
