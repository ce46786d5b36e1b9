// The overview: loads its chart after the page, and starts it.
import { showDeferred } from "../charts/shared/deferred.js";
import { startChart } from "../charts/shared/chart_frame.js";
import { startNavigation } from "../site/navigation.js";
import { buildBars, describeBar, findNearestBar, prepareBars } from "./bars.js";

function startFigure(figure) {
  const box = figure.querySelector(".chart-box");
  const bars = prepareBars(JSON.parse(figure.querySelector('script[type="application/json"]').textContent));
  const { getChart, placeOf } = startChart(box, (look) => buildBars(bars, look));
  const points = {
    count: bars.times.length,
    elementAt: (index) => ({ datasetIndex: 0, index }),
    describe: (index) => describeBar(bars, index),
    findNearest: ({ x }) => findNearestBar(bars.times.map((_, index) => placeOf({ datasetIndex: 0, index }).x), x),
  };
  startNavigation(box, figure.querySelector(".chart-readout"), { getChart, points });
}

const startFigures = (place) => place.querySelectorAll("[data-regressions]").forEach(startFigure);

function startPanel(panel) {
  // The page of the chart shows its table.
  panel.querySelectorAll("details").forEach((table) => table.removeAttribute("open"));
  startFigures(panel);
}

startFigures(document);
await showDeferred(document.querySelectorAll("[data-deferred]:not([data-kind])"), async () => startPanel);
