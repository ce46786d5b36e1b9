// Charts of a run: latency percentiles from the table on the page, and traces from the API.
import { getJson } from "../../site/api.js";
import { findNearest } from "../shared/marks.js";
import { buildPercentiles, describeMark as describePercentile, MOST_END_LABELS, preparePercentiles } from "../latency/percentiles.js";
import { buildTrace, describeMark as describeTracePoint, prepareTrace } from "./trace.js";
import { isNarrowBox, onWidthChange, showProblem, startChart } from "../shared/chart_frame.js";
import { startNavigation } from "../../site/navigation.js";

function readLines() {
  const rows = [...document.querySelectorAll("#percentiles-table tbody tr")];
  const lines = rows.map((row) => ({
    name: row.dataset.name,
    rw: row.dataset.rw,
    direction: row.dataset.direction,
    run: row.dataset.run ?? "",
    isBefore: row.dataset.before !== undefined,
    points: [...row.querySelectorAll("[data-percent]:not([data-few])")]
      .filter((cell) => cell.dataset.value !== "")
      .map((cell) => ({ percent: Number(cell.dataset.percent), value: Number(cell.dataset.value) })),
  }));
  return lines.filter(({ points }) => points.length > 0);
}

function showLegend(figure, lines) {
  const legend = figure.querySelector("[data-legend]");
  const hasBefore = lines.some(({ isBefore }) => isBefore);
  const box = figure.querySelector(".chart-box");
  const show = () => {
    legend.hidden = !hasBefore && lines.length <= MOST_END_LABELS && !isNarrowBox(box);
  };
  show();
  onWidthChange(box, show);
  for (const { name, isBefore, style } of lines) {
    const item = document.createElement("li");
    const key = document.createElement("span");
    key.className = `key ${isBefore ? "before" : style.shape} ${style.color}`;
    item.append(key, name);
    legend.append(item);
  }
}

// Start one figure with keyboard navigation.
function startFigure(figure, { marks, build, describe }) {
  const box = figure.querySelector(".chart-box");
  const { getChart, placeOf } = startChart(box, build);
  startNavigation(box, figure.querySelector(".chart-readout"), {
    getChart,
    points: {
      count: marks.length,
      elementAt: (index) => marks[index].element,
      describe: (index) => describe(marks[index]),
      findNearest: (pixel) => findNearest(marks.map((mark) => placeOf(mark.element)), pixel),
    },
  });
}

function startPercentiles(figure) {
  const prepared = preparePercentiles(readLines());
  const build = (look) => buildPercentiles(prepared, look);
  startFigure(figure, { marks: prepared.marks, build, describe: describePercentile });
  showLegend(figure, prepared.lines);
}

// A line for each direction, in the order of the answer.
function selectLines(points, { kind, dataset }) {
  const own = points.filter((point) => point.kind === kind);
  return [...new Set(own.map((point) => point.direction))].map((direction) => ({
    direction,
    rw: dataset[`rw${direction[0].toUpperCase()}${direction.slice(1)}`] ?? "",
    points: own.filter((point) => point.direction === direction),
  }));
}

function startTrace(figure, points) {
  const { trace: kind, unit, label } = figure.dataset;
  const prepared = prepareTrace(selectLines(points, { kind, dataset: figure.dataset }), { unit, label });
  const build = (look) => buildTrace(prepared, look);
  startFigure(figure, { marks: prepared.marks, build, describe: (mark) => describeTracePoint(mark, unit) });
}

async function loadTraces(section) {
  const figures = [...section.querySelectorAll("[data-trace]")];
  section.querySelectorAll(".chart-notice").forEach((notice) => notice.remove());
  try {
    const { points } = await getJson(section.dataset.traces);
    figures.forEach((figure) => startTrace(figure, points));
  } catch (error) {
    figures.forEach((figure) => showProblem(figure.querySelector(".chart-box"), error.message, () => loadTraces(section)));
  }
}

const percentiles = document.querySelector("[data-percentiles]");
if (percentiles !== null) {
  startPercentiles(percentiles);
}
const traces = document.querySelector("[data-traces]");
if (traces !== null) {
  loadTraces(traces);
}
