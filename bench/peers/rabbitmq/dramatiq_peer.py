"""Times Dramatiq on a queue of its own messages: an actor that does nothing, or one that always fails.

Failing means two retries and then a rejection, after which the broker sets the message aside.
"""

import importlib.metadata
import os
import sys

import peer

PROCESSES = os.cpu_count() or 2
THREADS = 8


def main():
    options = peer.options()
    peer.calls_file(options)
    peer.filling()
    os.environ.update(BENCH_URL=options.url, BENCH_QUEUE=options.queue)
    import dramatiq_tasks as bench

    actor = bench.noop if options.mode == "consume" else bench.refuse
    for _ in range(options.messages):
        actor.send(peer.BODY)
    command = [sys.executable, "-B", "-m", "dramatiq", "dramatiq_tasks", "--log-file", os.devnull]
    command += ["--processes", str(PROCESSES), "--threads", str(THREADS)]
    here = os.path.dirname(os.path.abspath(__file__))
    environment = {"PYTHONPATH": here, "dramatiq_queue_prefetch": str(options.prefetch // PROCESSES)}
    dead = f"{bench.QUEUE}.XQ"
    channel = bench.broker.connection.channel()
    ready = lambda: channel.queue_declare(dead, passive=True).method.message_count
    finished = {
        "consume": lambda calls: calls >= options.messages,
        "fail": lambda calls: calls >= options.messages * (peer.RETRIES + 1) and ready() >= options.messages,
    }[options.mode]
    elapsed = peer.run_worker(command, options.directory, environment, finished)
    for queue in (bench.QUEUE, f"{bench.QUEUE}.DQ", dead):
        channel.queue_delete(queue)
    version = importlib.metadata.version("dramatiq")
    settings = (
        f"Dramatiq {version}, classic durable queue (it makes no others), {PROCESSES} processes, "
        f"{THREADS} threads each, prefetch {options.prefetch}, {options.messages} messages"
    )
    peer.report("dramatiq", options.messages, elapsed, settings)


if __name__ == "__main__":
    main()
