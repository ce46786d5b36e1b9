"""Everything below /api/v1/. POST /submissions and POST /fio are served before Django, in `intake`."""

from django.urls import path

from benchapp.api import hosts, index, run_report, runs, schedules, series, submissions, tokens, traces

urlpatterns = [
    path("", index.Index.as_view(), name="api_index"),
    path("schema", index.Schema.as_view(), name="api_schema"),
    path("hosts", hosts.Hosts.as_view(), name="api_hosts"),
    path("hosts/me", hosts.OwnHost.as_view(), name="api_own_host"),
    path("hosts/me/schedule", schedules.OwnSchedule.as_view(), name="api_own_schedule"),
    path("hosts/<str:name>", hosts.OneHost.as_view(), name="api_host"),
    path("hosts/<str:name>/tokens", tokens.HostTokens.as_view(), name="api_host_tokens"),
    path("tokens/<str:public_id>", tokens.OneToken.as_view(), name="api_token"),
    path("enrollments", tokens.Enrollments.as_view(), name="api_enrollments"),
    path("runs", runs.Runs.as_view(), name="api_runs"),
    path("runs/<int:run_id>", runs.OneRun.as_view(), name="api_run"),
    path("runs/<int:run_id>/output", runs.RunOutputFile.as_view(), name="api_run_output"),
    path("runs/<int:run_id>/report", run_report.RunReport.as_view(), name="api_run_report"),
    path("runs/<int:run_id>/traces", traces.RunTraces.as_view(), name="api_run_traces"),
    path("series", series.SeriesList.as_view(), name="api_series_list"),
    path("series/<int:series_id>", series.OneSeries.as_view(), name="api_series"),
    path("series/<int:series_id>/points", series.Points.as_view(), name="api_points"),
    path("series/<int:series_id>/summary", series.SeriesSummary.as_view(), name="api_summary"),
    path("submissions", submissions.Submissions.as_view(), name="api_submissions"),
    path("submissions/<uuid:submission_id>", submissions.OneSubmission.as_view(), name="api_submission"),
    path("fio", submissions.refuse_method, name="api_fio"),
    path("<path:path>", index.answer_unknown_path, name="api_unknown"),
]
