// Elements around the panels of a history: environment-change ticks, overview strip, legend.
import { groupChanges, listComparisons, measureRoom, nameTick } from "./changes.js";
import { describeChange } from "./history.js";
import { MOST_END_LABELS } from "./panel.js";
import { drawOverview } from "./overview.js";
import { isNarrowBox } from "../shared/chart_frame.js";
import { readColors } from "../shared/colors.js";
import { nameKey } from "../shared/palette.js";

const LABEL_FROM_PX = 44;
const CHANGES_SHOWN = 8;

/** Place a tick below the main panel for each environment change in view. history: the figure's; chart: of the panel. */
export function placeChanges(history, chart) {
  const row = history.figure.querySelector("[data-changes]");
  const { left, right } = chart.chartArea;
  const placeOf = (at) => chart.scales.x.getPixelForValue(at);
  const groups = measureRoom(groupChanges(history.changes, { placeOf, left, right }), right);
  row.replaceChildren(...groups.map((group) => makeTick(history, group)));
}

/** Show the legend: the values that color the marks, and the lines unless they are labeled at their ends. */
export function showLegend({ figure, whole: { lines, color }, names }) {
  const isNarrow = isNarrowBox(figure.querySelector(".chart-box"));
  const values = (color?.items ?? []).map(({ text, style }) => makeLegendItem(`${color.label}: ${text}`, style));
  names.list(lines.length > 1 && (lines.length > MOST_END_LABELS || isNarrow), values);
}

/** Draw the overview strip at device resolution. */
export function drawStrip({ strip, whole, metrics, area, figure, names }) {
  const canvas = strip.querySelector("canvas");
  const ratio = globalThis.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  const isLog = figure.dataset.scale === "log";
  const marks = whole.marks.filter(({ line }) => !names.hidden.has(line.id));
  drawOverview(ctx, { ...whole, marks }, { metric: metrics[0], area: { ...area, height }, colors: readColors(), isLog });
}

function describeClick(history, changes) {
  if (!history.hasLinks) {
    return "";
  }
  return listComparisons(changes).length > 0 ? "click: before / after on all hosts" : "click: first run after the change";
}

function makeTick(history, { x, room, changes }) {
  const tick = document.createElement("button");
  tick.type = "button";
  tick.className = "change-tick";
  tick.style.left = `${x}px`;
  tick.style.maxWidth = `${Math.max(14, room - 2)}px`;
  const texts = changes.map((change) => `${history.formatTime(change.at)} · ${change.host}: ${describeChange(change)}`);
  tick.setAttribute("aria-label", texts.join("; "));
  // Cut off at the next tick.
  const label = changes.length > 1 ? nameTick(changes) : describeChange(changes[0]);
  tick.textContent = room < LABEL_FROM_PX ? "" : label;
  const show = () => {
    history.readout.textContent = texts.join("; ");
    const title = changes.length > 1 ? `${changes.length} environment changes` : "Environment change";
    history.tip.show({ title, lines: texts.slice(0, CHANGES_SHOWN), foot: describeClick(history, changes), x, top: history.main.offsetTop });
  };
  tick.addEventListener("pointerenter", show);
  tick.addEventListener("focus", show);
  tick.addEventListener("pointerleave", () => history.tip.hide());
  tick.addEventListener("blur", () => history.tip.hide());
  tick.addEventListener("click", () => offerComparisons(history, { changes, texts }));
  return tick;
}

/** Put the links of a tick into the readout: the comparison on all hosts, and the first run after the change. */
function offerComparisons(history, { changes, texts }) {
  if (!history.hasLinks) {
    return;
  }
  const links = listComparisons(changes).map(({ text, url }) => makeLink(text, url));
  if (links.length === 0) {
    history.openRun(changes[0].run);
    return;
  }
  links.push(makeLink(`Run ${changes[0].run}`, `/runs/${changes[0].run}/`));
  history.tip.hide();
  history.readout.replaceChildren(`${texts.join("; ")} `, ...links.flatMap((link) => [link, " "]));
  links[0].focus();
}

function makeLink(text, url) {
  const link = document.createElement("a");
  link.href = url;
  link.textContent = text;
  return link;
}

function makeLegendItem(text, style) {
  const item = document.createElement("li");
  const key = document.createElement("span");
  key.className = nameKey(style);
  item.append(key, text);
  return item;
}
