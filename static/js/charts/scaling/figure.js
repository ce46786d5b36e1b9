// Draws a scaling figure from the JSON in the page, with keyboard navigation and PNG download.
import { findNearest } from "../shared/marks.js";
import { buildScaling, describeCell, MOST_END_LABELS, moveWithin, prepareScaling } from "./scaling.js";
import { HATCHES } from "./marks.js";
import { startChart, startImageButton } from "../shared/chart_frame.js";
import { startNavigation } from "../../site/navigation.js";

/** Start one figure: a panel in each of its boxes. */
export function startScaling(figure) {
  const prepared = prepareScaling(JSON.parse(figure.querySelector('script[type="application/json"]').textContent));
  const boxes = [...figure.querySelectorAll(".chart-box")];
  const charts = boxes.map((box, place) => startPanel(figure, box, prepared, place));
  showLegend(figure, prepared, boxes[0]);
  for (const offer of figure.querySelectorAll("[data-log-offer]")) {
    offer.hidden = !prepared.canBeLog;
  }
  startImageButton(figure, {
    drawCopy: (ratio) => drawPanels(charts, prepared, ratio),
    describe: () => ({ title: figure.dataset.title, filter: figure.dataset.filter }),
  });
}

function startPanel(figure, box, prepared, place) {
  const panel = prepared.panels[place];
  const chart = startChart(box, (look) => buildScaling(prepared, place, look));
  if (panel.marks.length > 0) {
    startNavigation(box, figure.querySelector(".chart-readout"), {
      getChart: chart.getChart,
      points: {
        count: panel.marks.length,
        elementAt: (index) => panel.marks[index].element,
        describe: (index) => describeCell(prepared, panel, panel.marks[index]),
        findNearest: (pixel) => findNearest(panel.marks.map(({ element }) => centerOf(chart.placeOf(element))), pixel),
        move: (key, from) => moveWithin(panel, from, key),
        open: (index) => {
          // A shared study has no links.
          if (panel.marks[index].cell.url) {
            location.assign(panel.marks[index].cell.url);
          }
        },
      },
    });
  }
  return { box, drawCopy: chart.drawCopy };
}

// A bar is selected anywhere along its height.
function centerOf(element) {
  return { x: element.x, y: Number.isFinite(element.y) ? element.y : (element.base ?? 0) };
}

function showLegend(figure, { colors, styles, isBars, panels }, box) {
  const legend = figure.querySelector("[data-legend]");
  const hasEndLabels = !isBars && panels.length === 1 && colors.length <= MOST_END_LABELS && box.clientWidth >= 560;
  legend.hidden = colors.length < 2 || hasEndLabels;
  colors.forEach(({ label }, place) => {
    const { color, shape } = styles[place];
    const item = document.createElement("li");
    const key = document.createElement("span");
    key.className = isBars ? `bar-key ${color} hatch-${HATCHES[color].join("-") || "none"}` : `key ${shape} ${color}`;
    item.append(key, label);
    legend.append(item);
  });
}

// All panels on one canvas, arranged as on the page, each with its heading.
function drawPanels(charts, { panels }, ratio) {
  if (charts.length === 1) {
    return charts[0].drawCopy(ratio);
  }
  const origin = charts[0].box.parentElement.parentElement.getBoundingClientRect();
  const copy = document.createElement("canvas");
  copy.width = origin.width * ratio;
  copy.height = origin.height * ratio;
  const context = copy.getContext("2d");
  context.fillStyle = getComputedStyle(document.body).color;
  context.font = `600 ${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "bottom";
  charts.forEach(({ box, drawCopy }, place) => {
    const bounds = box.getBoundingClientRect();
    const [left, top] = [(bounds.left - origin.left) * ratio, (bounds.top - origin.top) * ratio];
    context.fillText(panels[place].label, left, top);
    context.drawImage(drawCopy(ratio), left, top, bounds.width * ratio, bounds.height * ratio);
  });
  return copy;
}
