"""The actors of the Dramatiq peer, which its worker imports. It acknowledges after an actor has run."""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import Retries

import peer

QUEUE = os.environ["BENCH_QUEUE"]

# Without the middleware that the benchmark has no use for: time limits, callbacks, age limits, metrics.
# Only the worker's publications need to be confirmed: what fills the queue is not timed.
confirm = "BENCH_FILLING" not in os.environ
broker = RabbitmqBroker(url=os.environ["BENCH_URL"], confirm_delivery=confirm, middleware=[Retries()])
dramatiq.set_broker(broker)

count = peer.counter()


@dramatiq.actor(queue_name=QUEUE, max_retries=0)
def noop(body):
    count()


@dramatiq.actor(queue_name=QUEUE, max_retries=peer.RETRIES, min_backoff=peer.DELAY_MS, max_backoff=peer.DELAY_MS)
def refuse(body):
    count()
    raise RuntimeError("no patient 17")
