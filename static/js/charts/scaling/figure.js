// Draws a scaling figure from the JSON in the page, with keyboard navigation.
import { findNearest } from "../shared/marks.js";
import { buildScaling, describeRun, describeStacked, findMark, fitsEndLabels, moveWithin, prepareStack } from "./scaling.js";
import { HATCHES } from "./marks.js";
import { findRun, moveToRun } from "./runs.js";
import { isNarrowBox, onWidthChange, startChart } from "../shared/chart_frame.js";
import { moveBy, startNavigation } from "../../site/navigation.js";

/** Start one figure: the charts of each panel, one for each metric, with one cursor. */
export function startScaling(figure) {
  const stack = prepareStack(JSON.parse(figure.querySelector('script[type="application/json"]').textContent));
  const boxes = [...figure.querySelectorAll(".chart-box")];
  const charts = stack[0].panels.flatMap((_, place) => {
    const own = boxes.slice(place * stack.length, (place + 1) * stack.length);
    const started = [];
    own.forEach((box, layer) => started.push(startPanel(figure, box, { stack, layer, place, others: () => started })));
    return started;
  });
  showLegend(figure, stack[0], boxes[0]);
  for (const offer of figure.querySelectorAll("[data-log-offer]")) {
    offer.hidden = !stack.some(({ canBeLog }) => canBeLog);
  }
}

// others: → the charts of the panel, in the order of the stack.
function startPanel(figure, box, { stack, layer, place, others }) {
  const prepared = stack[layer];
  const panel = prepared.panels[place];
  const chart = startChart(box, (look) => buildScaling(prepared, place, look));
  if (panel.marks.length > 0) {
    startNavigation(box, figure.querySelector(".chart-readout"), {
      getChart: chart.getChart,
      points: listPoints({ chart, stack, layer, place, others }),
    });
  }
  return { getChart: chart.getChart, panel };
}

// What can be selected: the marks, and behind them the runs.
function listPoints({ chart, stack, layer, place, others }) {
  const prepared = stack[layer];
  const panel = prepared.panels[place];
  const { marks, runs } = panel;
  const runOf = (index) => (index === null || index < marks.length ? null : index - marks.length);
  const markOf = (index) => (runOf(index) === null ? index : runs[runOf(index)].mark);
  const elementAt = (index) => marks[markOf(index)].element;
  return {
    count: marks.length,
    elementAt,
    describe: (index) =>
      runOf(index) === null ? describeStacked(stack, { layer, place, element: elementAt(index) }) : describeRun(prepared, panel, runOf(index)),
    onSelect: (index) => {
      if (panel.activeRun !== runOf(index)) {
        panel.activeRun = runOf(index);
        chart.getChart().tooltip.update(true);
        chart.getChart().draw();
      }
      followCursor(others(), { layer, element: index === null ? null : elementAt(index) });
    },
    findNearest: (pixel) => {
      const run = findRun(chart.getChart(), runs, prepared, pixel);
      return run === null ? findNearest(marks.map(({ element }) => centerOf(chart.placeOf(element))), pixel) : marks.length + run;
    },
    move: (key, from) => {
      if (from === null) {
        return null;
      }
      const run = moveToRun(runs, key, { mark: markOf(from), run: runOf(from) });
      return run === null ? (moveWithin(panel, markOf(from), key) ?? moveBy(key, markOf(from), marks.length)) : marks.length + run;
    },
    open: (index) => {
      // A shared study has no links.
      const url = runOf(index) === null ? marks[index].cell.url : linkRun(prepared, runs[runOf(index)]);
      if (url) {
        location.assign(url);
      }
    },
  };
}

function linkRun({ runUrl }, { cell, place }) {
  return cell.runs.ids.length === 0 ? "" : runUrl.replace("/0/", `/${cell.runs.ids[place]}/`);
}

// The other charts of a panel show the same place.
function followCursor(charts, { layer, element }) {
  charts.forEach(({ getChart, panel }, place) => {
    if (place !== layer) {
      const isThere = element !== null && findMark(panel, element) !== undefined;
      getChart().setActiveElements(isThere ? [element] : []);
      getChart().draw();
    }
  });
}

// A bar is selected anywhere along its height.
function centerOf(element) {
  return { x: element.x, y: Number.isFinite(element.y) ? element.y : (element.base ?? 0) };
}

function showLegend(figure, prepared, box) {
  const { colors, styles, isBars } = prepared;
  const legend = figure.querySelector("[data-legend]");
  const show = () => {
    legend.hidden = colors.length < 2 || fitsEndLabels(prepared, isNarrowBox(box));
  };
  show();
  onWidthChange(box, show);
  colors.forEach(({ label }, place) => {
    const { color, shape } = styles[place];
    const item = document.createElement("li");
    const key = document.createElement("span");
    key.className = isBars ? `bar-key ${color} hatch-${HATCHES[color].join("-") || "none"}` : `key ${shape} ${color}`;
    item.append(key, label);
    legend.append(item);
  });
}
