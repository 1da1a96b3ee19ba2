"""What the Python peers of the RabbitMQ benchmark share: their options, counting across processes, timing."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time

BODY = "x" * 200
RETRIES = 2
DELAY_MS = 100
PATIENCE_S = 240
# Each call of the handler appends a byte to this file: all processes can, and a size is read at once.
CALLS = "BENCH_CALLS"


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--prefetch", type=int, required=True)
    parser.add_argument("--mode", choices=("consume", "fail"), required=True)
    parser.add_argument("--directory", required=True, help="an empty directory")
    return parser.parse_args()


def counter():
    """What a handler calls to say that it was called."""
    file = os.open(os.environ[CALLS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    return lambda: os.write(file, b".")


def calls_file(given):
    """Where calls are counted; for the worker's processes too, which inherit the environment."""
    path = os.path.join(given.directory, "calls")
    open(path, "wb").close()
    os.environ[CALLS] = path
    return path


def filling():
    """Says to the modules that a worker imports that this process only fills its queue."""
    os.environ["BENCH_FILLING"] = "yes"


def run_worker(command, directory, environment, finished):
    """Starts a worker and times it from the first call of its handler until `finished(calls)`."""
    os.environ.pop("BENCH_FILLING", None)
    log = open(os.path.join(directory, "worker.log"), "wb")
    worker = subprocess.Popen(
        command, stdout=log, stderr=log, env={**os.environ, **environment}, start_new_session=True
    )
    try:
        wait(worker, lambda calls: calls > 0)
        start = time.monotonic()
        wait(worker, finished)
        return time.monotonic() - start
    finally:
        stop(worker)


def stop(worker):
    """With all its processes. Nothing that it holds is of use any more."""
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def wait(worker, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition(os.path.getsize(os.environ[CALLS])):
        if worker.poll() is not None:
            sys.exit(f"the worker ended with {worker.returncode}")
        if time.monotonic() > deadline:
            sys.exit(f"only {os.path.getsize(os.environ[CALLS])} calls in {PATIENCE_S} s")
        time.sleep(0.005)


def report(peer, processed, elapsed, settings):
    line = {"peer": peer, "processed_per_second": processed / elapsed, "settings": settings}
    print(json.dumps(line))
