"""The tables of the lists of a configuration file."""

from benchapp.models import (
    ConfirmationPolicy,
    DetectionPolicy,
    Host,
    PlannedEvent,
    Price,
    Study,
    Subscription,
    TargetMapping,
    WantedSchedule,
)

CONFIGURED = {
    "hosts": Host,
    "target_mappings": TargetMapping,
    "detection_policies": DetectionPolicy,
    "confirmation_policies": ConfirmationPolicy,
    "schedules": WantedSchedule,
    "planned_events": PlannedEvent,
    "prices": Price,
    "subscriptions": Subscription,
    "studies": Study,
}
