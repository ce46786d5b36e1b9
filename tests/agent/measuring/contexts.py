"""A method context with a scripted fio."""

from __future__ import annotations

import json
import os
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agent.measuring.fio import FioResult
from agent.profiles.profile import Plan, load_profile, make_plan


@dataclass
class ScriptedContext:
    """results: (IOPS, p95 in ns) of each execution in turn, None for one that fails."""

    profile: str
    directory: Path
    results: list[tuple[float, float] | None]
    settings: dict[str, str] = field(default_factory=dict)
    engine: str = "libaio"
    is_direct: bool = True
    jobfiles: list[str] = field(default_factory=list)
    workspace: Any = field(init=False)

    def __post_init__(self) -> None:
        descriptor = os.open(self.directory, os.O_RDONLY)
        weakref.finalize(self, os.close, descriptor)
        self.workspace = SimpleNamespace(descriptor=descriptor)

    @property
    def plan(self) -> Plan:
        return make_plan(load_profile(self.profile), self.settings)

    def write_jobfile(self, **places: Any) -> str:
        return self.plan.write_jobfile(engine=self.engine, is_direct=self.is_direct, **places)

    def execute(self, jobfile: str, *, options: tuple[str, ...] = ()) -> FioResult:
        self.jobfiles.append(jobfile)
        result = self.results.pop(0)
        iops, p95 = result or (0.0, 0.0)
        part = {"total_ios": int(iops), "iops": iops, "clat_ns": {"percentile": {"95.000000": p95}}}
        job = {"error": 0 if result else 28, "read": part, "write": {"total_ios": 0}}
        report = json.dumps({"fio version": "fio-3.99", "jobs": [job]})
        return FioResult(("fio",), 0 if result else 1, None, report + "\n", "", 1.0, 2.0, None)
