// Chart of the runs before and after a change: rendered from the data in the page, with keyboard navigation.
import { buildEvidence, describeEntry, prepareEvidence } from "./evidence.js";
import { findNearest } from "../shared/marks.js";
import { startChart } from "../shared/chart_frame.js";
import { startNavigation } from "../../site/navigation.js";

function start(figure) {
  const box = figure.querySelector(".chart-box");
  const evidence = prepareEvidence(JSON.parse(document.getElementById(figure.dataset.evidence).textContent));
  const { getChart, placeOf } = startChart(box, (look) => buildEvidence(evidence, look));
  const { entries } = evidence;
  startNavigation(box, figure.querySelector(".chart-readout"), {
    getChart,
    points: {
      count: entries.length,
      elementAt: (index) => entries[index].element,
      describe: (index) => describeEntry(evidence, entries[index]),
      findNearest: (pixel) => findNearest(entries.map(({ element }) => placeOf(element)), pixel),
      open: (index) => location.assign(`/runs/${entries[index].run}/`),
    },
  });
}

start(document.querySelector("[data-evidence]"));
