// The latency percentiles of a run, drawn from the numbers in the table below the chart.
import { findNearest } from "../chart/marks.js";
import { buildPercentiles, describeMark, MOST_END_LABELS, preparePercentiles } from "../chart/percentiles.js";
import { startChart, startImageButton } from "./chart_frame.js";
import { startNavigation } from "./navigation.js";

const figure = document.querySelector("[data-percentiles]");
const box = figure.querySelector(".chart-box");

function readLines() {
  return [...document.querySelectorAll("#percentiles-table tbody tr")].map((row) => ({
    name: row.dataset.name,
    rw: row.dataset.rw,
    direction: row.dataset.direction,
    points: [...row.querySelectorAll("[data-percent]")]
      .filter((cell) => cell.dataset.value !== "")
      .map((cell) => ({ percent: Number(cell.dataset.percent), value: Number(cell.dataset.value) })),
  }));
}

function showLegend(lines) {
  const legend = figure.querySelector("[data-legend]");
  legend.hidden = lines.length <= MOST_END_LABELS && box.clientWidth >= 560;
  for (const { name, style } of lines) {
    const item = document.createElement("li");
    const key = document.createElement("span");
    key.className = `key ${style.shape} ${style.colour}`;
    item.append(key, name);
    legend.append(item);
  }
}

function start() {
  const prepared = preparePercentiles(readLines());
  const { marks } = prepared;
  const { getChart, placeOf, drawCopy } = startChart(box, (look) => buildPercentiles(prepared, look));
  startNavigation(box, figure.querySelector(".chart-readout"), {
    getChart,
    points: {
      count: marks.length,
      elementAt: (index) => marks[index].element,
      describe: (index) => describeMark(marks[index]),
      findNearest: (pixel) => findNearest(marks.map((mark) => placeOf(mark.element)), pixel),
    },
  });
  const describe = () => ({ title: figure.dataset.title, filter: figure.dataset.filter });
  startImageButton(figure, { drawCopy, describe });
  showLegend(prepared.lines);
}

start();
