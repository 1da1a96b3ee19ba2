"""Times Celery on a queue of its own tasks: a task that does nothing, or one that always fails.

Failing means two retries and then a rejection, after which the broker sets the message aside.
"""

import importlib.metadata
import os
import sys

import peer

PROCESSES = os.cpu_count() or 2
# With quorum queues Celery delays within the broker, by whole seconds; shorter delays need classic ones.
QUEUE_TYPES = {"consume": "quorum", "fail": "classic"}


def main():
    options = peer.options()
    peer.calls_file(options)
    peer.filling()
    os.environ.update(
        BENCH_URL=options.url,
        BENCH_QUEUE=options.queue,
        BENCH_PREFETCH=str(options.prefetch),
        BENCH_PROCESSES=str(PROCESSES),
        BENCH_QUEUE_TYPE=QUEUE_TYPES[options.mode],
    )
    import celery_tasks as bench

    fill(bench, options)
    command = [sys.executable, "-B", "-m", "celery", "-A", "celery_tasks", "worker", "-c", str(PROCESSES)]
    command += ["--pool", "prefork", "--hostname", f"{options.queue}@%h", "--loglevel", "CRITICAL", "-O", "fair"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    here = os.path.dirname(os.path.abspath(__file__))
    with bench.app.connection_for_read() as connection:
        dead = connection.channel()
        finished = {
            "consume": lambda calls: calls >= options.messages,
            "fail": lambda calls: calls >= options.messages * (peer.RETRIES + 1)
            and dead.queue_declare(bench.DEAD, passive=True).message_count >= options.messages,
        }[options.mode]
        elapsed = peer.run_worker(command, options.directory, {"PYTHONPATH": here}, finished)
        for queue in (bench.QUEUE, bench.DEAD):
            dead.queue_delete(queue)
    version = importlib.metadata.version("celery")
    settings = (
        f"Celery {version}, {bench.QUEUE_TYPE} queue, acks_late, {PROCESSES} processes, "
        f"prefetch {options.prefetch}, {options.messages} tasks"
    )
    peer.report("celery", options.messages, elapsed, settings)


def fill(bench, options):
    task = bench.noop if options.mode == "consume" else bench.refuse
    with bench.app.connection_for_write() as connection:
        channel = connection.channel()
        channel.queue_declare(bench.DEAD, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})
        producer = bench.app.amqp.Producer(channel)
        for _ in range(options.messages):
            task.apply_async((peer.BODY,), producer=producer)


if __name__ == "__main__":
    main()
