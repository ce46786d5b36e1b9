// The ratios of a comparison: drawn from the JSON in the page, with keyboard navigation.
import { buildComparison, describeRatio, prepareComparison } from "./comparison.js";
import { startChart } from "../shared/chart_frame.js";
import { startNavigation } from "../../site/navigation.js";

/** Start one figure. */
export function startComparison(figure) {
  const box = figure.querySelector(".chart-box");
  const comparison = prepareComparison(JSON.parse(figure.querySelector("script").textContent));
  const { getChart, placeOf } = startChart(box, (look) => buildComparison(comparison, { ...look, baseline: figure.dataset.baseline }));
  startNavigation(box, figure.querySelector(".chart-readout"), {
    getChart,
    points: {
      count: comparison.entries.length,
      elementAt: (index) => comparison.entries[index].element,
      describe: (index) => describeRatio(comparison.entries[index]),
      findNearest: ({ y }) => findNearestLine(comparison.entries.map((entry) => placeOf(entry.element).y), y),
      open: (index) => goTo(comparison.entries[index].url),
    },
  });
}

function findNearestLine(heights, y) {
  const distances = heights.map((height) => Math.abs(height - y));
  return distances.indexOf(Math.min(...distances));
}

function goTo(url) {
  const line = document.querySelector(url);
  line.scrollIntoView({ block: "center" });
  line.tabIndex = -1;
  line.focus();
}

document.querySelectorAll("[data-comparison]").forEach(startComparison);
