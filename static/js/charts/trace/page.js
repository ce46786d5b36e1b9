// Charts of a run: latency percentiles from the table on the page, and traces from the API.
import { getJson } from "../../site/api.js";
import { LineNames } from "../shared/line_names.js";
import { findNearest } from "../shared/marks.js";
import { nameKey } from "../shared/palette.js";
import { join, readAxis } from "../shared/together.js";
import { buildPercentiles, describeMark as describePercentile, MOST_END_LABELS, preparePercentiles } from "../latency/percentiles.js";
import { buildTrace, describeMark as describeTracePoint, findNearestTime, prepareTrace, zoomSeconds } from "./trace.js";
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

/** Start one figure with keyboard navigation. prepare: hidden → {lines, marks}; build: (prepared, look) → configuration; onSelect(mark or null). */
function startFigure(figure, { prepare, build, describe, onSelect = () => {} }) {
  const box = figure.querySelector(".chart-box");
  let prepared = prepare(new Set());
  const lines = prepared.lines.map(({ id, name, isBefore, style }) => ({ id, name, key: isBefore ? `key before ${style.color}` : nameKey(style) }));
  const update = () => {
    prepared = prepare(names.hidden);
    redraw();
  };
  const names = new LineNames(figure, lines, update);
  const { getChart, placeOf, redraw } = startChart(box, (look) => build(prepared, { ...look, names }));
  const { mark } = startNavigation(box, figure.querySelector(".chart-readout"), {
    getChart,
    points: {
      get count() {
        return prepared.marks.length;
      },
      elementAt: (index) => prepared.marks[index].element,
      describe: (index) => describe(prepared.marks[index]),
      onSelect: (index) => onSelect(index === null ? null : prepared.marks[index]),
      findNearest: (pixel) => findNearest(prepared.marks.map((mark) => placeOf(mark.element)), pixel),
    },
  });
  return { names, update, mark, getChart, getPrepared: () => prepared };
}

function startPercentiles(figure) {
  const lines = readLines();
  const { names } = startFigure(figure, { prepare: (hidden) => preparePercentiles(lines, hidden), build: buildPercentiles, describe: describePercentile });
  const box = figure.querySelector(".chart-box");
  const showNames = () => names.list(lines.some(({ isBefore }) => isBefore) || lines.length > MOST_END_LABELS || isNarrowBox(box));
  showNames();
  onWidthChange(box, showNames);
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

// The traces of a run have one time axis: they are zoomed together, and show one second.
function startTrace(figure, points) {
  const { trace: kind, unit, label } = figure.dataset;
  const lines = selectLines(points, { kind, dataset: figure.dataset });
  const box = figure.querySelector(".chart-box");
  const reset = figure.querySelector("[data-zoom=reset]");
  let view = null;
  let selected = null;
  const chart = startFigure(figure, {
    prepare: (hidden) => prepareTrace(lines, { unit, label, hidden, view }),
    build: buildTrace,
    describe: (mark) => describeTracePoint(mark, unit),
    onSelect: (mark) => {
      selected = mark;
      joined.point(mark?.at ?? null);
    },
  });
  const zoom = (range) => {
    view = range;
    reset.hidden = range === null;
    chart.update();
  };
  const joined = join(box, {
    kind: "seconds",
    getAxis: () => readAxis(chart.getChart()),
    onZoom: zoom,
    follow: (at) => chart.mark(at === null ? null : findNearestTime(chart.getPrepared().marks, at)),
  });
  const zoomAll = (range) => {
    zoom(range);
    joined.zoom(range);
  };
  reset.addEventListener("click", () => zoomAll(null));
  box.addEventListener("keydown", ({ key }) => {
    const factor = { "+": 0.5, "=": 0.5, "-": 2, 0: Infinity }[key];
    if (factor !== undefined) {
      const { view: shown, span } = chart.getPrepared();
      zoomAll(zoomSeconds(shown, selected?.at ?? (shown.from + shown.to) / 2, { factor, span }));
    }
  });
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
