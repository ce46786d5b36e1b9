"""What is kept: a file per concept."""

from benchapp.models.account import Invitation, Role, Throttle, User
from benchapp.models.environment import ENVIRONMENT_FIELDS, Environment
from benchapp.models.host import ApiToken, Host, Scope
from benchapp.models.measurement import METRIC_FIELDS, LatencyKind, Measurement
from benchapp.models.run import Run
from benchapp.models.series import DirectionName, Series
from benchapp.models.submission import Kind, State, Submission
from benchapp.models.target import TARGET_FIELDS, Target
from benchapp.models.trace import Trace, TraceKind
from benchapp.models.workload import WORKLOAD_FIELDS, Workload

__all__ = [
    "ENVIRONMENT_FIELDS",
    "METRIC_FIELDS",
    "TARGET_FIELDS",
    "WORKLOAD_FIELDS",
    "ApiToken",
    "DirectionName",
    "Environment",
    "Host",
    "Invitation",
    "Kind",
    "LatencyKind",
    "Measurement",
    "Role",
    "Run",
    "Scope",
    "Series",
    "State",
    "Submission",
    "Target",
    "Throttle",
    "Trace",
    "TraceKind",
    "User",
    "Workload",
]
