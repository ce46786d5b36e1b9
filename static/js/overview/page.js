// The overview: loads its charts after the page, and starts them.
import { showDeferred } from "../charts/shared/deferred.js";
import { startChart, startImageButton } from "../charts/shared/chart_frame.js";
import { findNearest } from "../charts/shared/marks.js";
import { startNavigation } from "../site/navigation.js";
import { buildBars, describeBar, findNearestBar, prepareBars } from "./bars.js";
import { buildFleet, describeFleetDay, moveToLine, prepareFleet } from "./fleet.js";
import "./host_strip.js";

function startFleet(figure, box, document_) {
  const fleet = prepareFleet(document_);
  const { getChart, placeOf, drawCopy } = startChart(box, (look) => {
    figure.querySelector("[data-legend]").hidden = !look.isNarrow;
    return buildFleet(fleet, look);
  });
  return {
    drawCopy,
    getChart,
    points: {
      count: fleet.entries.length,
      elementAt: (index) => fleet.entries[index].element,
      describe: (index) => describeFleetDay(fleet.entries[index]),
      findNearest: (pixel) => findNearest(fleet.entries.map(({ element }) => placeOf(element)), pixel),
      move: (key, from) => moveToLine(fleet, from, key),
    },
  };
}

function startBars(figure, box, document_) {
  const bars = prepareBars(document_);
  const { getChart, placeOf, drawCopy } = startChart(box, (look) => buildBars(bars, look));
  return {
    drawCopy,
    getChart,
    points: {
      count: bars.times.length,
      elementAt: (index) => ({ datasetIndex: 0, index }),
      describe: (index) => describeBar(bars, index),
      findNearest: ({ x }) => findNearestBar(bars.times.map((_, index) => placeOf({ datasetIndex: 0, index }).x), x),
    },
  };
}

const STARTERS = { fleet: startFleet, changes: startBars, ingest: startBars };

function startFigure(figure) {
  const box = figure.querySelector(".chart-box");
  const content = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  const { drawCopy, getChart, points } = STARTERS[figure.dataset.overviewChart](figure, box, content);
  startNavigation(box, figure.querySelector(".chart-readout"), { getChart, points });
  startImageButton(figure, { drawCopy, describe: () => ({ title: figure.dataset.title, filter: figure.dataset.filter, note: figure.querySelector("figcaption").textContent.trim() }) });
}

const startFigures = (place) => place.querySelectorAll("[data-overview-chart]").forEach(startFigure);

function startPanel(panel) {
  // The page of a chart shows its table.
  panel.querySelectorAll("details").forEach((table) => table.removeAttribute("open"));
  startFigures(panel);
}

startFigures(document);
await showDeferred(document.querySelectorAll("[data-deferred]:not([data-kind])"), async () => startPanel);
