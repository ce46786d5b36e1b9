"""Tables, one module per concept."""

from benchapp.models.access.audit_record import AuditKind, AuditRecord
from benchapp.models.access.external_identity import ExternalIdentity
from benchapp.models.access.person_names import is_shown_to_stranger, name_person, note_reader, shown_to
from benchapp.models.access.signed_link import SignedLink
from benchapp.models.account import BROWSER_ZONE, Invitation, RateUnits, Role, Theme, Throttle, User
from benchapp.models.change import (
    STATED_CHANGE,
    Change,
    ChangeState,
    DetectionResult,
    DetectionStatus,
    PooledEvaluation,
    Slope,
    read_slope,
)
from benchapp.models.environment import ENVIRONMENT_FIELDS, RECENTLY_REPORTED, Environment
from benchapp.models.heartbeat import Heartbeat, Pulse
from benchapp.models.host import SAMPLE_HOST, ApiToken, Host, Scope, name_scopes
from benchapp.models.incident import (
    UNRESOLVED,
    Incident,
    IncidentEvent,
    IncidentState,
    Severity,
    Verdict,
    label_link,
)
from benchapp.models.layouts.price import PRICE_AMOUNTS, Price
from benchapp.models.level import Level, NewestValues
from benchapp.models.measurement import METRIC_FIELDS, LatencyKind, Measurement
from benchapp.models.notifications.layout_answer import StoredLayoutAnswer
from benchapp.models.personal.pinned_chart import PinnedChart
from benchapp.models.personal.saved_view import SavedView
from benchapp.models.planned_event import (
    PlannedEvent,
    PlannedEventAction,
    PlannedEventKind,
    PlannedEventLogEntry,
    PlannedEventState,
)
from benchapp.models.policies.detection_policy import (
    THRESHOLD_MAXIMUM,
    THRESHOLD_MINIMUM,
    DetectionDryRun,
    DetectionPolicy,
    DetectionPolicyAction,
    DetectionPolicyLogEntry,
    DryRunState,
)
from benchapp.models.requests.confirmation_policy import (
    CONFIRMATION_RUNS_MAXIMUM,
    DAILY_SHARE_DEFAULT,
    DAILY_SHARE_MAXIMUM,
    ConfirmationPolicy,
)
from benchapp.models.requests.run_request import (
    OPEN_REQUEST_STATES,
    RequestPolicy,
    RunRequest,
    RunRequestState,
)
from benchapp.models.run import Run
from benchapp.models.schedules.wanted_schedule import (
    WANTED_SCHEDULES_MAXIMUM,
    ScheduleAdoption,
    WantedSchedule,
)
from benchapp.models.series import DirectionName, Series
from benchapp.models.series_environment import SeriesEnvironment
from benchapp.models.study import FrozenPanel, PanelKind, Study, StudyPanel, StudySnapshot, StudySnapshotImage
from benchapp.models.submission import Kind, State, Submission
from benchapp.models.subscription import (
    WITHHELD,
    Channel,
    EmailAddress,
    Notice,
    NoticeState,
    RefusedAddress,
    Subscription,
    ThresholdViolation,
)
from benchapp.models.target import TARGET_FIELDS, Target
from benchapp.models.trace import Trace, TraceKind
from benchapp.models.workload import WORKLOAD_FIELDS, Workload

__all__ = [
    "BROWSER_ZONE",
    "CONFIRMATION_RUNS_MAXIMUM",
    "DAILY_SHARE_DEFAULT",
    "DAILY_SHARE_MAXIMUM",
    "ENVIRONMENT_FIELDS",
    "METRIC_FIELDS",
    "OPEN_REQUEST_STATES",
    "PRICE_AMOUNTS",
    "RECENTLY_REPORTED",
    "SAMPLE_HOST",
    "STATED_CHANGE",
    "TARGET_FIELDS",
    "THRESHOLD_MAXIMUM",
    "THRESHOLD_MINIMUM",
    "UNRESOLVED",
    "WANTED_SCHEDULES_MAXIMUM",
    "WITHHELD",
    "WORKLOAD_FIELDS",
    "ApiToken",
    "AuditKind",
    "AuditRecord",
    "Change",
    "ChangeState",
    "Channel",
    "ConfirmationPolicy",
    "DetectionDryRun",
    "DetectionPolicy",
    "DetectionPolicyAction",
    "DetectionPolicyLogEntry",
    "DetectionResult",
    "DetectionStatus",
    "DirectionName",
    "DryRunState",
    "EmailAddress",
    "Environment",
    "ExternalIdentity",
    "FrozenPanel",
    "Heartbeat",
    "Host",
    "Incident",
    "IncidentEvent",
    "IncidentState",
    "Invitation",
    "Kind",
    "LatencyKind",
    "Level",
    "Measurement",
    "NewestValues",
    "Notice",
    "NoticeState",
    "PanelKind",
    "PinnedChart",
    "PlannedEvent",
    "PlannedEventAction",
    "PlannedEventKind",
    "PlannedEventLogEntry",
    "PlannedEventState",
    "PooledEvaluation",
    "Price",
    "Pulse",
    "RateUnits",
    "RefusedAddress",
    "RequestPolicy",
    "Role",
    "Run",
    "RunRequest",
    "RunRequestState",
    "SavedView",
    "ScheduleAdoption",
    "Scope",
    "Series",
    "SeriesEnvironment",
    "Severity",
    "SignedLink",
    "Slope",
    "State",
    "StoredLayoutAnswer",
    "Study",
    "StudyPanel",
    "StudySnapshot",
    "StudySnapshotImage",
    "Submission",
    "Subscription",
    "Target",
    "Theme",
    "ThresholdViolation",
    "Throttle",
    "Trace",
    "TraceKind",
    "User",
    "Verdict",
    "WantedSchedule",
    "Workload",
    "is_shown_to_stranger",
    "label_link",
    "name_person",
    "name_scopes",
    "note_reader",
    "read_slope",
    "shown_to",
]
