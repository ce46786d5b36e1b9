// Small charts of a page: a line marks the same time in all, and a drag selects the time range of the page.
import { join, valueAt } from "./shared/together.js";
import { formatMoment } from "./shared/zones.js";
import { writeMoment } from "./shared/zoom.js";
import { setParameters } from "../site/address.js";
import { formatDay } from "../site/format.js";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
// Of the newest run in a chart of runs, and from one run to the next, in units of its box.
const RIGHT = 237;
const STEP = 4;
const roundToDay = (at) => Math.round(at / DAY_MS) * DAY_MS;

// All charts of a host have one axis of days: "FROM TO LEFT RIGHT".
function readDays(list) {
  const [from, to, left, right] = list.dataset.axis.split(" ");
  return { left, right, bottom: 0.8, from: Date.parse(from), to: Date.parse(to), round: roundToDay, format: formatDay, write: (at) => new Date(roundToDay(at)).toISOString().slice(0, 10) };
}

/** Read the runs of a chart: minutes of the first one, and the steps to the next ones with their counts, "1440x59". */
export function readRuns(text) {
  const [first, ...steps] = text.split(" ");
  const times = [Number(first) * MINUTE_MS];
  for (const [step, count] of steps.map((each) => each.split("x").map(Number))) {
    for (let place = 0; place < count; place += 1) {
      times.push(times.at(-1) + step * MINUTE_MS);
    }
  }
  const left = RIGHT - STEP * (times.length - 1);
  return { left, right: RIGHT, bottom: 1, from: times[0], to: times.at(-1), times, round: (at) => at, format: formatMoment, write: writeMoment };
}

function startChart(svg, { axis, isFirst }) {
  const element = svg.parentElement;
  const getAxis = () => {
    const [outer, own] = [element, svg].map((each) => each.getBoundingClientRect());
    const { x, width } = svg.viewBox.baseVal;
    const scale = own.width / width;
    const [left, top] = [own.left - outer.left - element.clientLeft, own.top - outer.top - element.clientTop];
    return { ...axis, left: left + (axis.left - x) * scale, right: left + (axis.right - x) * scale, top, bottom: top + own.height * axis.bottom };
  };
  const goTo = (range) => range && location.assign(setParameters(location.href, { from: axis.write(range.from), to: axis.write(range.to), page: null }));
  // One of them takes the page along.
  const joined = join(element, { kind: "time", getAxis, onZoom: isFirst ? goTo : undefined });
  const point = (at) => {
    joined.showLine(at, at === null ? "" : axis.format(at));
    joined.point(at);
  };
  element.addEventListener("pointermove", ({ clientX }) => point(axis.round(valueAt(getAxis(), clientX - element.getBoundingClientRect().left))));
  element.addEventListener("pointerleave", () => point(null));
}

const charts = [
  ...[...(globalThis.document?.querySelectorAll("[data-axis]") ?? [])].flatMap((list) => [...list.querySelectorAll("svg")].map((svg) => [svg, readDays(list)])),
  ...[...(globalThis.document?.querySelectorAll("svg[data-times]") ?? [])].map((svg) => [svg, readRuns(svg.dataset.times)]).filter(([, { times }]) => times.length > 1),
];
charts.forEach(([svg, axis], place) => startChart(svg, { axis, isFirst: place === 0 }));
