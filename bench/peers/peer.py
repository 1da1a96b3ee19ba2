"""What the Python peers share: their options and the one line that they print."""

import argparse
import json
import time

BODY = b"x" * 1024


def options(modes):
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--directory", required=True, help="an empty directory for the database")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    return parser.parse_args()


def seconds(run):
    """Times only the processing: what fills the queue is not what is compared."""
    start = time.monotonic()
    run()
    return time.monotonic() - start


def report(peer, processed, elapsed, settings):
    print(
        json.dumps(
            {
                "peer": peer,
                "processed_per_second": processed / elapsed,
                "settings": settings,
            }
        )
    )
