"""Where everything is."""

from django.urls import include, path

from benchapp.api import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("api/v1/", include("benchapp.api.urls")),
    path("", include("benchapp.web.urls")),
]

handler400 = "benchapp.web.errors.bad_request"
handler403 = "benchapp.web.errors.forbidden"
handler404 = "benchapp.web.errors.not_found"
handler500 = "benchapp.web.errors.fault"
