"""Loaded by every Python that finds this folder in PYTHONPATH."""

import os

import loopback_only

loopback_only.install(os.environ.get(loopback_only.RECORD, ""))
