"""URLs of pages and forms; of a page also its documentation, and the words by which the search finds it."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter
from django.views.generic import RedirectView

from benchapp.accounts.pages import own_account, people, sign_in, tokens
from benchapp.accounts.pages import own_account as preferences
from benchapp.accounts.pages import sign_in as accounts
from benchapp.accounts.pages import tokens as links
from benchapp.charts.pages import comparison, matrix, scaling
from benchapp.corrections import pages as corrections
from benchapp.framework.pages import audit
from benchapp.framework.pages.page_context import CHARTED, RANGED, TIMES, page
from benchapp.incidents.pages import benchmark_health, incidents
from benchapp.incidents.pages import maintenance as planned_events
from benchapp.incidents.pages import triage as bulk_triage
from benchapp.incidents.pages import triage as incident_actions
from benchapp.incidents.pages import triage as incident_baseline
from benchapp.intake.pages import upload_files
from benchapp.intake.pages import views as uploads
from benchapp.layouts.pages import experiment as experiments
from benchapp.layouts.pages import layouts as layout_ranking
from benchapp.layouts.pages import prices
from benchapp.notices import pages
from benchapp.notices import pages as subscriptions
from benchapp.overview.pages import charts, status
from benchapp.overview.pages import charts as overview_charts
from benchapp.overview.pages import page as overview
from benchapp.overview.pages import search as searches
from benchapp.overview.pages.docs import views as documentation
from benchapp.policies import pages as policies
from benchapp.reports.pages import saved_views, studies
from benchapp.reports.pages import shared as shared_studies
from benchapp.reports.pages import studies as study_edits
from benchapp.requests.pages import run_requests as requests
from benchapp.requests.pages import schedules
from benchapp.series.pages import detection_report, history, runs, series_list
from benchapp.series.pages import provenance as run_report
from benchapp.series.pages import runs as exclusions
from benchapp.storage.pages import views as hosts


class HostNameConverter(StringConverter):
    """Any host name without NUL, which PostgreSQL would reject."""

    regex = r"[^/\x00]+"


class TokenIdConverter(StringConverter):
    """The public id of a token."""

    regex = "[a-z0-9]{12}"


class ShareTokenConverter(StringConverter):
    """The token of a shared link: 32 random bytes."""

    regex = "[A-Za-z0-9_-]{43}"


register_converter(HostNameConverter, "host_name")
register_converter(TokenIdConverter, "token_id")
register_converter(ShareTokenConverter, "share_token")

urlpatterns = [
    page("", overview.home, "overview", "Overview", "home start", keeps=RANGED),
    page("overview/charts/regressions/", overview_charts.regressions, "overview#regressed-series"),
    path("overview/pins/add", charts.add_pin, name="add_pin"),
    page("overview/pins/<int:pin_id>/", charts.pinned_chart, "overview#pinned-charts"),
    path("overview/pins/<int:pin_id>/change", charts.change_pin, name="change_pin"),
    page("search/", searches.search, "overview#search"),
    path("search/results", searches.search_results, name="search_results"),
    path("search/words", searches.complete_word, name="complete_word"),
    page("runs/", runs.runs, "runs#list", "Runs", "results list", keeps=RANGED),
    page("runs/<int:run_id>/", runs.run, "runs#run"),
    path("runs/<int:run_id>/output", runs.run_output, name="run_output"),
    path("runs/<int:run_id>/table.csv", runs.run_table, name="run_table"),
    path("runs/<int:run_id>/exclude", exclusions.exclude, name="exclude_run"),
    path("runs/<int:run_id>/include", exclusions.include, name="include_run"),
    page("runs/<int:run_id>/report/", run_report.run_report, "api#provenance"),
    page("scaling/", scaling.scaling, "scaling", "Scaling", "volumes stripes chart", keeps=CHARTED),
    page("matrix/", matrix.matrix, "scaling#matrix", "Matrix", "heat map table", keeps=CHARTED),
    page("series/", series_list.series_list, "history#series", "Series", "sparklines list"),
    page("series/<int:series_id>/", history.history, "history", name="series"),
    page(
        "series/<int:series_id>/detection/",
        detection_report.detection_report,
        "detection#the-decision-in-short",
        name="series_detection",
    ),
    page("history/", history.history, "history", "History", "trend time chart", keeps=(*CHARTED, "series")),
    page(
        "incidents/",
        incidents.incidents,
        "incidents#the-inbox",
        "Incidents",
        "regressions inbox alerts",
        keeps=RANGED,
    ),
    page(
        "incidents/health/",
        benchmark_health.benchmark_health,
        "incidents#benchmark-health",
        "Benchmark health",
        "detection status monitored series noise findings",
        keeps=RANGED,
    ),
    # Links of before both pages were one.
    path(
        "incidents/status/",
        RedirectView.as_view(
            pattern_name="benchmark_health",
            permanent=True,
            query_string=True,
            http_method_names=["get", "head"],
        ),
    ),
    path("incidents/bulk", bulk_triage.triage_selected, name="bulk_triage"),
    path("incidents/bulk/undo", bulk_triage.undo_selected, name="undo_bulk_triage"),
    page("incidents/<int:incident_id>/", incidents.incident, "incidents#the-page-of-an-incident"),
    page(
        "incidents/<int:incident_id>/baseline/",
        incident_baseline.baseline,
        "incidents#the-page-of-an-incident",
        name="incident_baseline",
    ),
    path(
        "incidents/<int:incident_id>/<slug:action>", incident_actions.triage_incident, name="triage_incident"
    ),
    page(
        "maintenance/",
        planned_events.planned_events,
        "incidents#maintenance-expected-changes-and-notes",
        "Planned events",
        "maintenance windows expected changes notes annotations",
        keeps=TIMES,
    ),
    page(
        "maintenance/add",
        planned_events.add_planned_event,
        "incidents#maintenance-expected-changes-and-notes",
        "Schedule maintenance",
        "expected change window note annotation",
    ),
    page(
        "maintenance/<int:planned_event_id>/",
        planned_events.planned_event,
        "incidents#maintenance-expected-changes-and-notes",
    ),
    *(
        path(
            f"maintenance/<int:planned_event_id>/{act}",
            planned_events.change_planned_event,
            {"act": act},
            name=f"{act}_planned_event",
        )
        for act in planned_events.ACTIONS
    ),
    page("corrections/", corrections.corrections, "runs#correct-runs", "Corrections", "trash restore undo"),
    page("corrections/delete", corrections.delete_runs, "runs#correct-runs", "Delete runs", "remove trash"),
    page(
        "corrections/retention",
        corrections.add_retention,
        "operations#retention",
        "Set a retention",
        "keep old space size disk",
    ),
    page(
        "corrections/relabel", corrections.relabel_runs, "runs#correct-runs", "Relabel runs", "layout label"
    ),
    page("corrections/<int:correction_id>/", corrections.correction, "runs#correct-runs"),
    page("rename", corrections.rename_scope, "hosts#names-rename-merge-split"),
    page("split", corrections.split_host, "hosts#names-rename-merge-split"),
    *(
        path(
            f"corrections/<int:correction_id>/{act}",
            corrections.change_correction,
            {"act": act},
            name=f"{act}_correction",
        )
        for act in corrections.ACTIONS
    ),
    page("policies/", policies.detection_policies, "detection#policies", "Detection policies", "thresholds"),
    page(
        "policies/add",
        policies.add_detection_policy,
        "detection#policies",
        "New detection policy",
        "create threshold",
    ),
    page("policies/<int:policy_id>/", policies.detection_policy, "detection#policies"),
    *(
        path(
            f"policies/<int:policy_id>/{act}",
            policies.change_detection_policy,
            {"act": act},
            name=f"{act}_detection_policy",
        )
        for act in policies.ACTIONS
    ),
    page("policies/dry-runs/<int:dry_run_id>/", policies.dry_run, "detection#policies"),
    path("policies/dry-runs/<int:dry_run_id>/cancel", policies.change_dry_run, name="cancel_dry_run"),
    # Links of before conditions were an axis of Scaling.
    path("dependence/", scaling.redirect_dependence),
    page(
        "compare/",
        comparison.compare,
        "comparing",
        "Compare",
        "comparison difference before after",
        keeps=("q", "metric", "series"),
    ),
    page("studies/", studies.studies, "studies", "Reports", "studies"),
    page("studies/add", study_edits.add_study, "studies", "New report", "create study"),
    page("studies/<int:study_id>/", studies.study, "studies"),
    page("studies/<int:study_id>/edit", study_edits.edit_study, "studies"),
    path("studies/<int:study_id>/share", study_edits.share, name="share_study"),
    path("studies/<int:study_id>/snapshot", study_edits.change_snapshot, name="change_snapshot"),
    path(
        "studies/<int:study_id>/snapshot/<int:place>-<slug:theme>.png",
        studies.snapshot_image,
        name="snapshot_image",
    ),
    path(
        "studies/<int:study_id>/thumbnails/<int:place>-<slug:theme>.png",
        study_edits.thumbnail,
        name="thumbnail",
    ),
    path("studies/<int:study_id>/remove", study_edits.remove_study, name="remove_study"),
    page("views/", saved_views.saved_views, "studies#saved-views", "Saved views", "bookmarks"),
    path("views/add", saved_views.add_saved_view, name="add_saved_view"),
    path("views/<int:view_id>/change", saved_views.change_saved_view, name="change_saved_view"),
    path("shared/<share_token:token>/", shared_studies.shared_study, name="shared_study"),
    path("shared/<share_token:token>/image.png", shared_studies.shared_image, name="shared_image"),
    path(
        "shared/<share_token:token>/charts/<int:place>.png",
        shared_studies.shared_image,
        name="shared_chart_image",
    ),
    path(
        "shared/<share_token:token>/snapshot/<int:place>-<slug:theme>.png",
        shared_studies.shared_snapshot_image,
        name="shared_snapshot_image",
    ),
    path(
        "shared/<share_token:token>/charts/<int:place>",
        shared_studies.shared_chart,
        name="shared_chart",
    ),
    page(
        "layouts/",
        layout_ranking.layouts,
        "deciding#choose-a-layout",
        "Choose a layout",
        "cheapest sizing capacity requirement price",
    ),
    page(
        "experiment/",
        experiments.experiment,
        "deciding#ab-experiments",
        "A/B experiment",
        "arms difference required runs test",
    ),
    page("prices/", prices.prices, "deciding#prices", "Prices", "cost volume instance"),
    page("prices/add", prices.add_price, "deciding#prices", "Add prices", "create cost"),
    path("prices/<int:price_id>/change", prices.change_price, name="change_price"),
    page("hosts/", hosts.hosts, "hosts#list", "Hosts", "machines agents", keeps=RANGED),
    path("hosts/add", hosts.add_host, name="add_host"),
    path("hosts/enrollment", hosts.make_enrollment_token, name="make_enrollment_token"),
    page("hosts/<host_name:name>/", hosts.host, "hosts#host"),
    page(
        "schedules/",
        schedules.schedules,
        "agent#schedules-from-the-server",
        "Schedules",
        "timer cron profiles pools",
    ),
    page("schedules/scope/", schedules.schedule_scope, "agent#schedules-from-the-server"),
    path("schedules/save", schedules.save_schedule, name="save_schedule"),
    path("schedules/<int:wanted_id>/remove", schedules.remove_schedule, name="remove_schedule"),
    page(
        "requests/", requests.run_requests, "agent#requested-runs", "Requested runs", "run again confirmation"
    ),
    path("requests/confirmation", requests.set_confirmation, name="set_confirmation"),
    path("requests/add", requests.run_again, name="run_again"),
    path(
        "hosts/<host_name:name>/requests/<uuid:request_id>/cancel",
        requests.cancel_request,
        name="cancel_run_request",
    ),
    page("hosts/<host_name:name>/settings/", hosts.host_settings, "hosts#host"),
    path("hosts/<host_name:name>/token", hosts.make_host_token, name="make_host_token"),
    page("hosts/<host_name:name>/pool", hosts.set_pool, "hosts#pools"),
    page("hosts/<host_name:name>/target-name", hosts.map_target_name, "numbers#target-names"),
    path("hosts/<host_name:name>/retired", hosts.set_retired, name="set_retired"),
    page("tokens/", tokens.tokens, "api#tokens", "Tokens", "API enrollment access keys"),
    path("tokens/add", tokens.add_token, name="add_token"),
    path("tokens/<token_id:public_id>/revoke", tokens.revoke, name="revoke_token"),
    page(
        "uploads/",
        uploads.uploads,
        "importing#uploads-page",
        "Uploads",
        "submissions rejected",
        keeps=TIMES,
    ),
    page(
        "uploads/add",
        upload_files.upload_files,
        "importing#uploads-page",
        "Upload fio results",
        "import files",
    ),
    path("uploads/retry", uploads.retry_alike, name="retry_uploads"),
    page("uploads/<uuid:submission_id>/", uploads.upload, "importing#uploads-page"),
    path("uploads/<uuid:submission_id>/raw", uploads.upload_raw, name="upload_raw"),
    path("uploads/<uuid:submission_id>/retry", uploads.retry_one, name="retry_upload"),
    page(
        "subscriptions/",
        subscriptions.subscriptions,
        "notifications",
        "Subscriptions",
        "notifications e-mail slack webhook",
    ),
    page(
        "subscriptions/add",
        subscriptions.add_subscription,
        "notifications#notices",
        "New subscription",
        "create notification",
    ),
    page("subscriptions/<int:subscription_id>/", subscriptions.subscription, "notifications#notices"),
    page(
        "subscriptions/<int:subscription_id>/edit", subscriptions.edit_subscription, "notifications#notices"
    ),
    path(
        "subscriptions/<int:subscription_id>/active",
        subscriptions.set_subscription_active,
        name="set_subscription_active",
    ),
    path("subscriptions/<int:subscription_id>/test", subscriptions.send_test, name="test_subscription"),
    path(
        "subscriptions/<int:subscription_id>/secret",
        subscriptions.renew_subscription_secret,
        name="renew_subscription_secret",
    ),
    path(
        "subscriptions/<int:subscription_id>/remove",
        subscriptions.remove_subscription,
        name="remove_subscription",
    ),
    path(
        "subscriptions/<int:subscription_id>/confirmation",
        subscriptions.send_confirmation,
        name="send_confirmation",
    ),
    page(
        "confirm-address/<share_token:token>/",
        pages.confirm_address,
        "notifications#e-mail-address-confirmation",
    ),
    page("status/", status.status, "operations#status", "Status", "doctor health disk storage backlog"),
    page("audit/", audit.audit_records, "operations#audit-record", "Audit record", "log writes history"),
    page("people/", people.people, "accounts#invitations", "People", "users invite invitation roles"),
    path("people/invite", people.invite, name="invite"),
    path(
        "people/invitations/<int:invitation_id>/withdraw",
        people.withdraw_pending_invitation,
        name="withdraw_invitation",
    ),
    path(
        "people/invitations/<int:invitation_id>/renew",
        people.renew_pending_invitation,
        name="renew_invitation",
    ),
    path("people/<int:user_id>/password", people.make_reset_link, name="make_reset_link"),
    path("people/<int:user_id>/delete", people.delete_person, name="delete_person"),
    path("people/<int:user_id>/role", people.set_person_role, name="set_person_role"),
    path("people/<int:user_id>/active", people.set_person_active, name="set_person_active"),
    page("account/", own_account.account, "accounts#account", "Account", "password profile"),
    page("links/", links.signed_links, "api#signed-links", "Signed links", "share image"),
    path("links/<int:link_id>/revoke", links.revoke_signed_link, name="revoke_signed_link"),
    path("account/delete", own_account.delete_own_account, name="delete_own_account"),
    path("account/preferences", preferences.change_preferences, name="change_preferences"),
    path("account/theme", preferences.change_theme, name="change_theme"),
    path("account/email", own_account.change_own_email, name="change_own_email"),
    page("account/email/<str:secret>/", own_account.confirm_own_email, "accounts#lost-password"),
    page("reset-password/", sign_in.request_password_link, "accounts#lost-password"),
    page("reset-password/<str:secret>/", sign_in.set_new_password, "accounts#lost-password"),
    page("sign-in/", accounts.sign_in, "accounts#sign-in"),
    path("sign-in/oidc/", sign_in.start_oidc, name="start_oidc"),
    path("sign-in/oidc/callback", sign_in.finish_oidc, name="finish_oidc"),
    path("sign-out/", accounts.sign_out, name="sign_out"),
    page("setup/<str:secret>/", accounts.setup, "accounts#invitations"),
    path("agent/bench-agent.pyz", hosts.agent_archive, name="agent_archive"),
    path("api/v1/agent", hosts.agent_release, name="agent_release"),
    page("docs/", documentation.documentation_page, "", "Documentation", "help manual", name="docs"),
    path("docs/search", searches.search_documentation, name="docs_search"),
    path("docs/api/reference", documentation.api_reference, name="api_reference"),
    path("docs/api/reference/<slug:tag>", documentation.api_reference, name="api_reference_page"),
    path("docs/files/<path:file_name>", documentation.documentation_file, name="docs_file"),
    path("docs/<slug:page_name>", documentation.documentation_page, name="docs_page"),
]
