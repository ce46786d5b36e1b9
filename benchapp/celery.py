"""The Celery application of worker and beat (`-A benchapp`)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
# Celery discards what the checks return, and they load every page and endpoint: 30 MiB in a worker.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("benchapp")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["benchapp"])
