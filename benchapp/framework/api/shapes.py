"""Parts that answers of several resources share."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.answers import ApiAnswer, build
from benchapp.models import METRIC_FIELDS

# URLs are literal: `reverse` takes 10 µs, and a page of 1 000 rows has 2 000 URLs. A test resolves them.
PREFIX: Final = "/api/v1"
ERROR_MEANING: Final = (
    "fio's errno of the job, or else of the run; -1: the run failed without one; not 0: do not compare"
)


MetricName = Annotated[str, Meta(extra_json_schema={"enum": list(METRIC_FIELDS)})]


class MetricAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    unit: str
    better: Literal["higher", "lower"]
    label: str


def describe_metric(name: str) -> MetricAnswer:
    """Return one metric of the catalog."""
    return build(MetricAnswer, CATALOG[name])


def submission_url(submission_id: Any) -> str:
    """Return the URL of a submission."""
    return f"{PREFIX}/submissions/{submission_id}"


def run_links(run_id: int) -> dict[str, str]:
    """Return the fields url and page of a run."""
    return {"url": f"{PREFIX}/runs/{run_id}", "page": f"/runs/{run_id}/"}
