"""Judges as processes, forked from one that has imported everything: starting one takes 1.2 s of CPU otherwise."""

import multiprocessing
import threading
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from django.db import connection

from benchapp.judge import detect_and_notify, judge_series
from benchapp.models import Series

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, "pytest"])


class Judge:
    """A process that judges the test database, and says where it is."""

    def __init__(self, judge: Any, *arguments: str) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(
            target=_run, args=(judge, theirs, connection.settings_dict["NAME"], *arguments), daemon=True
        )
        self.process.start()
        theirs.close()

    def wait_until_there(self) -> None:
        """Wait until the judge says that it is there."""
        assert self._pipe.recv() == "there"

    def let_go(self) -> None:
        """Let a judge that waits begin."""
        self._pipe.send("go")


def _run(judge: Any, pipe: Connection, database: str, *arguments: str) -> None:
    connection.settings_dict["NAME"] = database
    judge(pipe, *arguments)


def halt_at(pipe: Connection, module: str, name: str) -> None:
    """Go through a step of the judge, say so, and stand still within its transaction."""
    where = import_module(module)
    step = getattr(where, name)

    def halt(*arguments: Any, **options: Any) -> None:
        step(*arguments, **options)
        pipe.send("there")
        threading.Event().wait()

    setattr(where, name, halt)
    detect_and_notify()


def judge_what_is_due(pipe: Connection) -> None:
    """Wait for the others; then judge whatever is due, a series at a time."""
    pipe.send("there")
    pipe.recv()
    while detect_and_notify(limit=1).series_ids:
        pass


def judge_all_by_name(pipe: Connection) -> None:
    """Wait for the others; then judge all series by name: every judge wants all of them."""
    pipe.send("there")
    pipe.recv()
    judge_series(list(Series.objects.values_list("pk", flat=True)))
