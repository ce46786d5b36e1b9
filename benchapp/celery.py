"""The Celery application of worker and beat (`-A benchapp`)."""

import os

from celery import Celery
from kombu.transport import redis, virtual

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
# Celery discards what the checks return, and they load every page and endpoint: 30 MiB in a worker.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
# Celery's command line copies BROKER_URL to this variable and prefers it to the setting, which has the password of
# BROKER_PASSWORD.
os.environ.pop("CELERY_BROKER_URL", None)


class HintQoS(redis.QoS):
    """Settles a message also if the broker is lost before it learns that: messages are hints, and may come twice.

    Otherwise the message occupies the only place of a worker, which then asks for no other and never notices that the
    connection is lost (celery issues 8030, 10205, 10302).
    """

    def ack(self, delivery_tag: str) -> None:
        """Settle a message."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        finally:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]


redis.Channel.QoS = HintQoS

app = Celery("benchapp")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["benchapp"])
