"""The pages and the buttons on them."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from benchapp.web import (
    accounts,
    documents,
    hand_in,
    hosts,
    people,
    run_report,
    runs,
    series,
    tokens,
    uploads,
)


class HostNameConverter(StringConverter):
    """Whatever can be a name in PostgreSQL: NUL is not found here, before it is refused there."""

    regex = r"[^/\x00]+"


class TokenIdConverter(StringConverter):
    """The public id of a token."""

    regex = "[a-z0-9]{12}"


register_converter(HostNameConverter, "host_name")
register_converter(TokenIdConverter, "token_id")

urlpatterns = [
    path("", documents.home, name="home"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<int:run_id>/", runs.run, name="run"),
    path("runs/<int:run_id>/output", runs.run_output, name="run_output"),
    path("runs/<int:run_id>/table.csv", runs.run_table, name="run_table"),
    path("runs/<int:run_id>/report/", run_report.run_report, name="run_report"),
    path("series/", series.series_list, name="series_list"),
    path("series/<int:series_id>/", series.series, name="series"),
    path("hosts/", hosts.hosts, name="hosts"),
    path("hosts/add", hosts.add_host, name="add_host"),
    path("hosts/enrolment", hosts.make_enrolment_token, name="make_enrolment_token"),
    path("hosts/<host_name:name>/", hosts.host, name="host"),
    path("hosts/<host_name:name>/token", hosts.make_host_token, name="make_host_token"),
    path("hosts/<host_name:name>/pool", hosts.set_pool, name="set_pool"),
    path("hosts/<host_name:name>/retired", hosts.set_retired, name="set_retired"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/add", tokens.add_token, name="add_token"),
    path("tokens/<token_id:public_id>/revoke", tokens.revoke, name="revoke_token"),
    path("uploads/", uploads.uploads, name="uploads"),
    path("uploads/add", hand_in.hand_in, name="hand_in"),
    path("uploads/retry", uploads.retry_alike, name="retry_uploads"),
    path("uploads/<uuid:submission_id>/", uploads.upload, name="upload"),
    path("uploads/<uuid:submission_id>/raw", uploads.upload_raw, name="upload_raw"),
    path("uploads/<uuid:submission_id>/retry", uploads.retry_one, name="retry_upload"),
    path("people/", people.people, name="people"),
    path("people/invite", people.invite, name="invite"),
    path("people/<int:user_id>/role", people.set_person_role, name="set_person_role"),
    path("people/<int:user_id>/active", people.set_person_active, name="set_person_active"),
    path("account/", accounts.account, name="account"),
    path("sign-in/", accounts.sign_in, name="sign_in"),
    path("sign-out/", accounts.sign_out, name="sign_out"),
    path("setup/<str:secret>/", accounts.setup, name="setup"),
    path("agent/bench-agent.pyz", documents.agent_archive, name="agent_archive"),
    path("docs/badges", documents.docs_badges, name="docs_badges"),
    path("docs/errors", documents.docs_errors, name="docs_errors"),
]
