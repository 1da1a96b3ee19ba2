"""The application of the Celery peer, which its worker imports.

Acknowledged after the task has run, so that a crash loses none, as with the others; publications are confirmed.
"""

import os

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

import peer

QUEUE = os.environ["BENCH_QUEUE"]
DEAD = f"{QUEUE}.dead"
QUEUE_TYPE = os.environ["BENCH_QUEUE_TYPE"]

app = Celery("bench", broker=os.environ["BENCH_URL"])
arguments = {
    "x-queue-type": QUEUE_TYPE,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": DEAD,
}
app.conf.update(
    task_queues=[Queue(QUEUE, Exchange(QUEUE, type="topic"), routing_key=QUEUE, queue_arguments=arguments)],
    task_default_queue=QUEUE,
    task_default_exchange=QUEUE,
    task_default_exchange_type="topic",
    task_default_routing_key=QUEUE,
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=max(1, int(os.environ["BENCH_PREFETCH"]) // int(os.environ["BENCH_PROCESSES"])),
    worker_send_task_events=False,
    # Only the worker's publications need it: what fills the queue is not timed.
    broker_transport_options={"confirm_publish": "BENCH_FILLING" not in os.environ},
    worker_hijack_root_logger=False,
)

count = peer.counter()


@app.task(name="noop")
def noop(body):
    count()


@app.task(name="refuse", bind=True, max_retries=peer.RETRIES)
def refuse(self, body):
    count()
    if self.request.retries >= peer.RETRIES:
        raise Reject("no patient 17", requeue=False)
    raise self.retry(countdown=peer.DELAY_MS / 1000)
