// Draws a scaling figure from the JSON in the page, with keyboard navigation.
import { LineNames } from "../shared/line_names.js";
import { findNearest } from "../shared/marks.js";
import { nameKey } from "../shared/palette.js";
import { buildScaling, describeRun, describeStacked, findMark, fitsEndLabels, moveWithin, prepareStack } from "./scaling.js";
import { HATCHES } from "./marks.js";
import { findRun, moveToRun } from "./runs.js";
import { isNarrowBox, onWidthChange, startChart } from "../shared/chart_frame.js";
import { moveBy, startNavigation } from "../../site/navigation.js";

/** Start one figure: the charts of each panel, one for each metric, with one cursor. */
export function startScaling(figure) {
  const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  const stack = prepareStack(data);
  const boxes = [...figure.querySelectorAll(".chart-box")];
  const names = new LineNames(figure, listNames(stack[0]), () => {
    prepareStack(data, names.hidden).forEach((prepared, layer) => Object.assign(stack[layer], prepared));
    charts.forEach(({ redraw }) => redraw());
  });
  const charts = stack[0].panels.flatMap((_, place) => {
    const own = boxes.slice(place * stack.length, (place + 1) * stack.length);
    const started = [];
    own.forEach((box, layer) => started.push(startPanel(figure, box, { stack, layer, place, names, others: () => started })));
    return started;
  });
  const showNames = () => names.list(stack[0].colors.length > 1 && !fitsEndLabels(stack[0], isNarrowBox(boxes[0])));
  showNames();
  onWidthChange(boxes[0], showNames);
  for (const offer of figure.querySelectorAll("[data-log-offer]")) {
    offer.hidden = !stack.some(({ canBeLog }) => canBeLog);
  }
}

// others: → the charts of the panel, in the order of the stack.
function startPanel(figure, box, { stack, layer, place, names, others }) {
  const prepared = stack[layer];
  const chart = startChart(box, (look) => buildScaling(prepared, place, { ...look, names }));
  const getPanel = () => prepared.panels[place];
  startNavigation(box, figure.querySelector(".chart-readout"), {
    getChart: chart.getChart,
    points: listPoints({ chart, stack, layer, place, getPanel, others }),
  });
  return { ...chart, getPanel };
}

// What can be selected: the marks, and behind them the runs.
function listPoints({ chart, stack, layer, place, getPanel, others }) {
  const prepared = stack[layer];
  const countMarks = () => getPanel().marks.length;
  const runOf = (index) => (index === null || index < countMarks() ? null : index - countMarks());
  const markOf = (index) => (runOf(index) === null ? index : getPanel().runs[runOf(index)].mark);
  const elementAt = (index) => getPanel().marks[markOf(index)].element;
  return {
    get count() {
      return countMarks();
    },
    elementAt,
    describe: (index) =>
      runOf(index) === null ? describeStacked(stack, { layer, place, element: elementAt(index) }) : describeRun(prepared, getPanel(), runOf(index)),
    onSelect: (index) => {
      const panel = getPanel();
      if (panel.activeRun !== runOf(index)) {
        panel.activeRun = runOf(index);
        chart.getChart().tooltip.update(true);
        chart.getChart().draw();
      }
      followCursor(others(), { layer, element: index === null ? null : elementAt(index) });
    },
    findNearest: (pixel) => {
      const { marks, runs } = getPanel();
      const run = findRun(chart.getChart(), runs, prepared, pixel);
      return run === null ? findNearest(marks.map(({ element }) => centerOf(chart.placeOf(element))), pixel) : marks.length + run;
    },
    move: (key, from) => {
      if (from === null) {
        return null;
      }
      const panel = getPanel();
      const run = moveToRun(panel.runs, key, { mark: markOf(from), run: runOf(from) });
      return run === null ? (moveWithin(panel, markOf(from), key) ?? moveBy(key, markOf(from), countMarks())) : countMarks() + run;
    },
    open: (index) => {
      // A shared study has no links.
      const { marks, runs } = getPanel();
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
  charts.forEach(({ getChart, getPanel }, place) => {
    if (place !== layer) {
      const isThere = element !== null && findMark(getPanel(), element) !== undefined;
      getChart().setActiveElements(isThere ? [element] : []);
      getChart().draw();
    }
  });
}

// A bar is selected anywhere along its height.
function centerOf(element) {
  return { x: element.x, y: Number.isFinite(element.y) ? element.y : (element.base ?? 0) };
}

function listNames({ colors, styles, isBars }) {
  return colors.map(({ label: name }, id) => {
    const { color } = styles[id];
    return { id, name, key: isBars ? `bar-key ${color} hatch-${HATCHES[color].join("-") || "none"}` : nameKey(styles[id]) };
  });
}
