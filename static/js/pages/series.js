// The history of a series: asks the public API for the points, draws them, lets them be walked and saved.
import { getJson } from "../api.js";
import { buildHistory, describePoint, prepareHistory } from "../chart/history.js";
import { findNearest } from "../chart/marks.js";
import { styleOf } from "../chart/palette.js";
import { showProblem, startChart, startImageButton } from "./chart_frame.js";
import { startNavigation } from "./navigation.js";

const figure = document.querySelector("[data-history]");
const box = figure.querySelector(".chart-box");
const { points: address, metric, unit, label, rw, direction, scale, harmless } = figure.dataset;
const { limit, limitWords, references } = figure.dataset;

async function load() {
  try {
    const answer = await getJson(address);
    // The newest first, so that a history longer than one answer loses its oldest end.
    draw(answer.points.map(readPoint).reverse(), answer.next !== null);
  } catch (error) {
    showProblem(box, error.message, load);
  }
}

function readPoint(row) {
  const level = { median: row[`${metric}_median`], low: row[`${metric}_p10`], high: row[`${metric}_p90`] };
  const isDoubtful = row.badges.some((code) => !harmless.split(" ").includes(code));
  return {
    at: Date.parse(row.started_at),
    value: row[metric],
    hasFailed: row.error !== 0,
    isDoubtful,
    badges: row.badges,
    runId: row.run,
    level,
  };
}

function draw(points, isCut) {
  if (points.length === 0) {
    showProblem(box, "No run in this span. Widen the days above the chart.");
    return;
  }
  const history = prepareHistory(points, {
    unit,
    isLog: scale === "log",
    limit: limit === undefined ? null : { value: Number(limit), words: limitWords },
    references: JSON.parse(references),
  });
  const style = styleOf({ rw, direction });
  const { getChart, placeOf, drawCopy } = startChart(box, (look) => buildHistory(history, { ...look, style, label }));
  startNavigation(box, figure.querySelector(".chart-readout"), {
    getChart,
    points: {
      count: points.length,
      elementAt: (index) => history.entries[index].element,
      describe: (index) => describePoint(history, index),
      findNearest: (pixel) => findNearest(history.entries.map((entry) => placeOf(entry.element)), pixel),
      open: (index) => location.assign(`/runs/${points[index].runId}/`),
    },
  });
  const describe = () => ({ title: figure.dataset.title, filter: figure.dataset.filter });
  startImageButton(figure, { drawCopy, describe });
  show("[data-cut]", isCut);
  show("[data-log-offer]", history.canBeLog);
}

function show(selector, isShown) {
  const element = figure.querySelector(selector);
  if (element !== null) {
    element.hidden = !isShown;
  }
}

load();
