"""The recipe "Add an option of Scaling": an axis that starts at 0."""

import json
import subprocess
from pathlib import Path

from tests.recipes import Tree

OPTION = """\
    has_zero: bool = option("zero", "flag", is_display=True, label="Axis from 0")
"""
# Address, parameters of the API, links, form and image of a chart; then the document of its page.
SCRIPT = """
import json
from datetime import UTC, datetime
from django.http import QueryDict
from django.template.loader import render_to_string
from benchapp.charts.api.scaling import ScalingParameters
from benchapp.charts.images.frame import ImageOptions
from benchapp.charts.images.chart import draw_chart
from benchapp.charts.read.axes import make_axis
from benchapp.charts.read.chart import ChartCell, ChartLine
from benchapp.charts.read.scaling_shapes import (
    OPTIONS, SCALING_METRICS, Counts, ScalingChart, ScalingFacet,
)
from benchapp.charts.pages.scaling_figure import make_scaling_figure
from benchapp.charts.pages.scaling_figure import read_request
from benchapp.charts.pages.scaling import make_option_field

def draw(query):
    request, errors = read_request(QueryDict(query))
    assert not errors
    cells = tuple(
        ChartCell(state="measured", median=value, p10=value, p90=value, n=1, last_at=NOW) for value in (900.0, 1000.0)
    )
    chart = ScalingChart(
        request=request, shown_filter=request.filter, metric=SCALING_METRICS["iops"], over=None,
        x=make_axis("volume_count", (1, 2)), color=None, facet=None,
        panels=(ScalingFacet(None, "", (ChartLine(None, "IOPS", cells),)),),
        fixed=(), common=(), varying=(), mixed=(), limits=(), counts=Counts(2, 0, 0, 0, 0, 0, 0, 2, 2),
    )
    figure = make_scaling_figure(chart, key="chart", base_url="")
    fields = [field for name in OPTIONS if (field := make_option_field(request, name))["option"].label]
    return {
        "links": [figure.url, figure.image_url, figure.csv_url],
        "form": render_to_string("charts/scaling/_scaling_fields.html", {"options": fields, "asked": request}),
        "image": draw_chart(chart, ImageOptions()).decode(),
        "document": figure.document,
    }

NOW = datetime(2026, 5, 12, tzinfo=UTC)
assert "zero" in ScalingParameters().fields
print(json.dumps([draw("draw=lines"), draw("draw=lines&zero=1")]))
"""
DOMAIN = """
import { prepareStack } from "./static/js/charts/scaling/scaling.js";
const [without, chosen] = JSON.parse(process.argv[1]).map((document) => prepareStack(document)[0].domain.min);
console.log(JSON.stringify([without > 0, chosen]));
"""


def test_option_is_declared_once_and_drawn_in_page_and_image(tmp_path: Path) -> None:
    tree = Tree(tmp_path, recipe="Add an option of Scaling", parts=("benchapp", "templates", "static"))

    tree.insert("benchapp/charts/read/scaling_shapes.py", OPTION, before="    is_ideal: bool = option(")
    tree.insert(
        "static/js/charts/scaling/scaling.js",
        "data.zero || ",
        before='data.draw === "bars" && data.over === null }),',
    )
    tree.insert(
        "benchapp/charts/images/chart.py", "chart.request.has_zero or ", before="is_bars and not is_log"
    )

    without, chosen = json.loads(tree.run_script(SCRIPT))
    # The numbers of the CSV do not depend on it.
    assert ["zero=1" in link for link in chosen["links"]] == [True, True, False]
    assert 'name="zero" value="1" checked data-auto> Axis from 0' in chosen["form"]
    assert without["image"] != chosen["image"]
    documents = json.dumps([without["document"], chosen["document"]])
    drawn = subprocess.run(
        ["node", "--input-type=module", "-e", DOMAIN, documents],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(drawn.stdout) == [True, 0]
    assert len(tree.changed) == 3
