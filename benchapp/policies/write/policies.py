"""Create, cancel and restore detection policies; cancel can be undone."""

from typing import Final

from benchapp.catalog.metrics import JUDGED_METRICS
from benchapp.detection.write.pooled import repeat_pooled_evaluations
from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import EntryList, read_entry_reason, read_series_filter
from benchapp.models import THRESHOLD_MAXIMUM, THRESHOLD_MINIMUM, AuditKind, DetectionPolicy, Series
from benchapp.models.policies.thresholds import list_matching_series

LABEL_MAXIMUM: Final = 300
# Detection evaluates each different filter for each batch of series.
POLICIES_MAXIMUM: Final = 100


class DetectionPolicyList(EntryList[DetectionPolicy]):
    """The thresholds other than those of the catalog."""

    model = DetectionPolicy
    kind = AuditKind.DETECTION_POLICY
    noun = "detection policy"

    def check(self, entry: DetectionPolicy) -> None:
        """Write the threshold and the reason in their canonical form. Raises BadValue."""
        check_threshold(entry)
        entry.reason = read_entry_reason(entry.reason)

    def refuse_more(self, entry: DetectionPolicy) -> None:
        """Raise BadValue if the policies in effect are too many for one more."""
        if DetectionPolicy.objects.filter(canceled_at=None).count() >= POLICIES_MAXIMUM:
            raise BadValue("", f"the limit of {POLICIES_MAXIMUM} policies is reached: cancel some first")

    def apply(self, entry: DetectionPolicy) -> None:
        """Mark matching series and their pooled levels for evaluation; rows are locked in the order of ids."""
        ids = list_matching_series(entry.filter, entry.label)
        list(
            Series.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk")
        )
        Series.objects.filter(pk__in=ids).update(judging_is_due=True)
        repeat_pooled_evaluations(ids)


def check_threshold(policy: DetectionPolicy) -> None:
    """Write the filter and the label of a policy in their canonical form. Raises BadValue."""
    if policy.metric not in JUDGED_METRICS:
        raise BadValue("metric", f"choose one of {', '.join(JUDGED_METRICS)}")
    # Also false for NaN.
    if not THRESHOLD_MINIMUM <= policy.smallest_change <= THRESHOLD_MAXIMUM:
        raise BadValue(
            "smallest_change", f"choose {THRESHOLD_MINIMUM * 100:.0f} to {THRESHOLD_MAXIMUM * 100:.0f} %"
        )
    policy.filter = read_series_filter(policy.filter)
    key, separator, value = (part.strip() for part in policy.label.partition("="))
    policy.label = f"{key}{separator}{value}"
    if policy.label and not (separator and key and value):
        raise BadValue("label", "write KEY=VALUE")
    if len(policy.label) > LABEL_MAXIMUM or "\x00" in policy.label:
        raise BadValue("label", f"at most {LABEL_MAXIMUM} characters, without NUL")


POLICIES: Final = DetectionPolicyList()
create_detection_policy = POLICIES.create
cancel_detection_policy, restore_detection_policy = POLICIES.cancel, POLICIES.restore
