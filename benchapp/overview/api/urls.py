"""Everything below /api/v1/."""

from django.urls import path, register_converter

from benchapp.accounts import api as links
from benchapp.charts.api import comparison, history, matrix, scaling
from benchapp.charts.images.frame import FORMATS
from benchapp.corrections import api as corrections
from benchapp.detection import api
from benchapp.framework.api import audit
from benchapp.incidents.api import changes, gate, incidents
from benchapp.incidents.api import incidents as incident_baseline
from benchapp.incidents.api import maintenance as planned_events
from benchapp.intake.api import run_output, submissions
from benchapp.intake.api import run_output as run_report
from benchapp.intake.api.submissions import refuse_method, take_posts
from benchapp.layouts.api import experiment, layouts, prices
from benchapp.notices import api as feed
from benchapp.overview.api import fleet, health
from benchapp.overview.api import fleet as index
from benchapp.policies import api as detection_policies
from benchapp.reports.api import images, studies
from benchapp.reports.api import studies as study_snapshots
from benchapp.requests.api import host_schedules, run_requests, wanted_schedules
from benchapp.requests.api import run_requests as confirmation_policies
from benchapp.series.api import points, runs, series
from benchapp.series.api import points as all_points
from benchapp.series.api import points as latency
from benchapp.series.api import runs as exclusions
from benchapp.series.api import runs as traces
from benchapp.series.api import series as dimensions
from benchapp.storage.api import hosts, tokens
from benchapp.storage.api import hosts as target_mappings


class ImageFormatConverter:
    """The suffix of an image."""

    regex = "|".join(FORMATS)

    def to_python(self, value: str) -> str:
        """Return the format."""
        return value

    def to_url(self, value: str) -> str:
        """Return the suffix."""
        return value


register_converter(ImageFormatConverter, "image_format")

urlpatterns = [
    # First, as results are posted most often, and the resolver tries one after the other.
    path("submissions", take_posts(submissions.Submissions.as_view()), name="api_submissions"),
    path("submissions/batch", take_posts(refuse_method), name="api_submission_batch"),
    path("fio", take_posts(refuse_method), name="api_fio"),
    path("", index.Index.as_view(), name="api_index"),
    path("schema", index.Schema.as_view(), name="api_schema"),
    path("planned-events", planned_events.PlannedEvents.as_view(), name="api_planned_events"),
    path(
        "planned-events/<int:planned_event_id>",
        planned_events.OnePlannedEvent.as_view(),
        name="api_planned_event",
    ),
    path("corrections", corrections.Corrections.as_view(), name="api_corrections"),
    path("corrections/<int:correction_id>", corrections.OneCorrection.as_view(), name="api_correction"),
    path("renames", corrections.Renames.as_view(), name="api_renames"),
    path("merges", corrections.Merges.as_view(), name="api_merges"),
    path("splits", corrections.Splits.as_view(), name="api_splits"),
    path("detection-policies", detection_policies.DetectionPolicies.as_view(), name="api_detection_policies"),
    path(
        "detection-policies/<int:policy_id>",
        detection_policies.OneDetectionPolicy.as_view(),
        name="api_detection_policy",
    ),
    path("detection-dry-runs", detection_policies.DetectionDryRuns.as_view(), name="api_detection_dry_runs"),
    path(
        "detection-dry-runs/<int:dry_run_id>",
        detection_policies.OneDetectionDryRun.as_view(),
        name="api_detection_dry_run",
    ),
    path("layouts", layouts.LayoutsView.as_view(), name="api_layouts"),
    path("experiment", experiment.ExperimentView.as_view(), name="api_experiment"),
    path("prices", prices.Prices.as_view(), name="api_prices"),
    path("prices/<int:price_id>", prices.OnePrice.as_view(), name="api_price"),
    path(
        "confirmation-policies",
        confirmation_policies.ConfirmationPolicies.as_view(),
        name="api_confirmation_policies",
    ),
    path("schedules", host_schedules.Schedules.as_view(), name="api_schedules"),
    path("wanted-schedules", wanted_schedules.WantedSchedules.as_view(), name="api_wanted_schedules"),
    path(
        "wanted-schedules/<int:wanted_id>",
        wanted_schedules.OneWantedSchedule.as_view(),
        name="api_wanted_schedule",
    ),
    path("status", health.CurrentStatus.as_view(), name="api_status"),
    path("audit", audit.AuditRecords.as_view(), name="api_audit_records"),
    path("hosts", hosts.Hosts.as_view(), name="api_hosts"),
    path("hosts/me", hosts.OwnHost.as_view(), name="api_own_host"),
    path("hosts/me/schedule", host_schedules.OwnSchedule.as_view(), name="api_own_schedule"),
    path("hosts/me/schedule/adoption", host_schedules.OwnAdoption.as_view(), name="api_own_adoption"),
    path("hosts/<str:name>/schedule", host_schedules.OneHostSchedule.as_view(), name="api_host_schedule"),
    path("hosts/me/requests/next", run_requests.NextOwnRequest.as_view(), name="api_next_own_request"),
    path("hosts/me/requests/<uuid:request_id>", run_requests.OneOwnRequest.as_view(), name="api_own_request"),
    path("hosts/<str:name>/attempts", hosts.HostAttempts.as_view(), name="api_host_attempts"),
    path("hosts/<str:name>/requests", run_requests.HostRequests.as_view(), name="api_host_requests"),
    path(
        "hosts/<str:name>/requests/<uuid:request_id>",
        run_requests.OneHostRequest.as_view(),
        name="api_host_request",
    ),
    path("hosts/<str:name>", hosts.OneHost.as_view(), name="api_host"),
    path("hosts/<str:name>/pool-move", hosts.HostPoolMove.as_view(), name="api_host_pool_move"),
    path("hosts/<str:name>/tokens", tokens.HostTokens.as_view(), name="api_host_tokens"),
    path("target-mappings", target_mappings.TargetMappings.as_view(), name="api_target_mappings"),
    path(
        "target-mappings/<int:mapping_id>",
        target_mappings.OneTargetMapping.as_view(),
        name="api_target_mapping",
    ),
    path("tokens", tokens.Tokens.as_view(), name="api_tokens"),
    path("tokens/<str:public_id>/rotation", tokens.TokenRotation.as_view(), name="api_token_rotation"),
    path("tokens/<str:public_id>", tokens.OneToken.as_view(), name="api_token"),
    path("enrollments", tokens.Enrollments.as_view(), name="api_enrollments"),
    path("runs", runs.Runs.as_view(), name="api_runs"),
    path("runs/newest/output", run_output.NewestOutputFile.as_view(), name="api_newest_output"),
    path("runs/<int:run_id>", runs.OneRun.as_view(), name="api_run"),
    path("runs/<int:run_id>/exclusion", exclusions.RunExclusion.as_view(), name="api_run_exclusion"),
    path("runs/<int:run_id>/gate", gate.Gate.as_view(), name="api_run_gate"),
    path("runs/<int:run_id>/output", run_output.RunOutputFile.as_view(), name="api_run_output"),
    path("runs/<int:run_id>/report", run_report.RunReport.as_view(), name="api_run_report"),
    path("runs/<int:run_id>/traces", traces.RunTracesView.as_view(), name="api_run_traces"),
    path(
        "charts/comparison.<image_format:image_format>",
        images.ComparisonImage.as_view(),
        name="api_comparison_image",
    ),
    path(
        "charts/history.<image_format:image_format>",
        images.HistoryImage.as_view(),
        name="api_history_image",
    ),
    path("charts/host.<image_format:image_format>", images.HostImage.as_view(), name="api_host_image"),
    path(
        "charts/incident.<image_format:image_format>",
        images.IncidentImage.as_view(),
        name="api_incident_image",
    ),
    path(
        "charts/layouts.<image_format:image_format>",
        images.LayoutsImage.as_view(),
        name="api_layouts_image",
    ),
    path(
        "charts/percentiles.<image_format:image_format>",
        images.PercentilesImage.as_view(),
        name="api_percentiles_image",
    ),
    path(
        "charts/matrix.<image_format:image_format>",
        images.MatrixImage.as_view(),
        name="api_matrix_image",
    ),
    path(
        "charts/scaling.<image_format:image_format>",
        images.ScalingImage.as_view(),
        name="api_scaling_image",
    ),
    path("changes", changes.Changes.as_view(), name="api_changes"),
    path("comparison", comparison.ComparisonView.as_view(), name="api_comparison"),
    path("history", history.Histories.as_view(), name="api_history"),
    path("dimensions", dimensions.Dimensions.as_view(), name="api_dimensions"),
    # A label of runs may have slashes in its name.
    path("dimensions/<path:dimension_name>/values", dimensions.Values.as_view(), name="api_dimension_values"),
    path("fleet/changes", fleet.FleetChanges.as_view(), name="api_fleet_changes"),
    path("fleet/levels", fleet.FleetLevels.as_view(), name="api_fleet_levels"),
    path("fleet/regressions", fleet.FleetRegressions.as_view(), name="api_fleet_regressions"),
    path("fleet/submissions", fleet.FleetSubmissions.as_view(), name="api_fleet_submissions"),
    path("incidents/bulk", incident_baseline.BulkTriage.as_view(), name="api_bulk_triage"),
    path("incidents/bulk/<uuid:bulk>", incident_baseline.OneBulkTriage.as_view(), name="api_one_bulk_triage"),
    path("incidents", incidents.Incidents.as_view(), name="api_incidents"),
    path("incidents/feed", feed.IncidentFeed.as_view(), name="api_incident_feed"),
    path("incidents/<int:incident_id>", incidents.OneIncident.as_view(), name="api_incident"),
    path(
        "incidents/<int:incident_id>/baseline",
        incident_baseline.IncidentBaseline.as_view(),
        name="api_incident_baseline",
    ),
    path("links", links.Links.as_view(), name="api_links"),
    path("links/<int:link_id>", links.OneLink.as_view(), name="api_link"),
    path("matrix", matrix.MatrixView.as_view(), name="api_matrix"),
    path("points", all_points.Points.as_view(), name="api_all_points"),
    path("scaling", scaling.Scaling.as_view(), name="api_scaling"),
    path("series", series.SeriesList.as_view(), name="api_series_list"),
    path("series/<int:series_id>", series.OneSeries.as_view(), name="api_series"),
    path(
        "series/<int:series_id>/detection",
        api.SeriesDetection.as_view(),
        name="api_series_detection",
    ),
    path("series/<int:series_id>/points", points.PointsView.as_view(), name="api_points"),
    path("series/<int:series_id>/percentiles", latency.Percentiles.as_view(), name="api_percentiles"),
    path("series/<int:series_id>/histogram", latency.Histogram.as_view(), name="api_histogram"),
    path("series/<int:series_id>/summary", points.SeriesSummaryView.as_view(), name="api_summary"),
    path("status-badge", images.StatusBadge.as_view(), name="api_status_badge"),
    path("studies", studies.Studies.as_view(), name="api_studies"),
    path("studies/<int:study_id>", studies.OneStudy.as_view(), name="api_study"),
    path(
        "studies/<int:study_id>/snapshot",
        study_snapshots.StudySnapshotView.as_view(),
        name="api_study_snapshot",
    ),
    path(
        "studies/<int:study_id>/snapshot/charts/<int:place>",
        study_snapshots.StudySnapshotImageView.as_view(),
        name="api_study_snapshot_image",
    ),
    path("submissions/<uuid:submission_id>", submissions.OneSubmission.as_view(), name="api_submission"),
    path("subscriptions", feed.Subscriptions.as_view(), name="api_subscriptions"),
    path(
        "subscriptions/<int:subscription_id>",
        feed.OneSubscription.as_view(),
        name="api_subscription",
    ),
    path(
        "subscriptions/<int:subscription_id>/test",
        feed.SubscriptionTest.as_view(),
        name="api_subscription_test",
    ),
    path(
        "subscriptions/<int:subscription_id>/confirmation",
        feed.SubscriptionConfirmation.as_view(),
        name="api_subscription_confirmation",
    ),
]
