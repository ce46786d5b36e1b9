// Charts of layouts: rendered from the data in the page, with keyboard navigation.
import { buildLayouts, describeLayout, prepareLayouts } from "./layouts.js";
import { startNavigation } from "../site/navigation.js";
import { startChart } from "../charts/shared/chart_frame.js";
import { findNearest } from "../charts/shared/marks.js";

/** Start one figure. */
export function startLayouts(figure) {
  const box = figure.querySelector(".chart-box");
  const layouts = prepareLayouts(JSON.parse(figure.querySelector("script").textContent));
  const { entries } = layouts;
  const { getChart, placeOf } = startChart(box, (look) => buildLayouts(layouts, look));
  showLegend(figure.querySelector("[data-legend]"), layouts);
  startNavigation(box, figure.querySelector(".chart-readout"), {
    getChart,
    points: {
      count: entries.length,
      elementAt: (index) => entries[index].element,
      describe: (index) => describeLayout(layouts, entries[index]),
      findNearest: (pixel) => findNearest(entries.map(({ element }) => placeOf(element)), pixel),
      // A shared study has no links.
      open: (index) => entries[index].url && location.assign(entries[index].url),
    },
  });
}

function showLegend(list, { classes, counts }) {
  classes.forEach(({ color, shape, label }, place) => {
    if (counts[place] > 0) {
      const item = document.createElement("li");
      const key = document.createElement("span");
      key.className = `key ${shape} ${color}`;
      item.append(key, label);
      list.append(item);
    }
  });
  list.hidden = false;
}

document.querySelectorAll("[data-layouts]").forEach(startLayouts);
