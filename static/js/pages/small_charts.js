// Small charts of one time axis: a line marks the same time in all, and a drag selects the time range of the page.
import { join, valueAt } from "../charts/shared/together.js";
import { setParameters } from "../site/address.js";
import { formatDay } from "../site/format.js";

const DAY_MS = 86_400_000;
const roundToDay = (at) => Math.round(at / DAY_MS) * DAY_MS;
const writeDay = (at) => new Date(roundToDay(at)).toISOString().slice(0, 10);

/** Join the charts of a list, whose data-axis has the days of both ends and where they are: "FROM TO LEFT RIGHT". */
function startCharts(list) {
  const [first, last, left, right] = list.dataset.axis.split(" ");
  const [from, to] = [Date.parse(first), Date.parse(last)];
  const goTo = (range) => {
    if (range !== null) {
      location.assign(setParameters(location.href, { from: writeDay(range.from), to: writeDay(range.to), page: null }));
    }
  };
  list.querySelectorAll("svg").forEach((svg, index) => {
    const element = svg.parentElement;
    const getAxis = () => {
      const [outer, own] = [element, svg].map((each) => each.getBoundingClientRect());
      const scale = own.width / svg.viewBox.baseVal.width;
      const at = { left: own.left - outer.left - element.clientLeft, top: own.top - outer.top - element.clientTop };
      return { left: at.left + left * scale, right: at.left + right * scale, top: at.top, bottom: at.top + own.height * 0.8, from, to };
    };
    // One of them takes the page along.
    const joined = join(element, { kind: "time", getAxis, onZoom: index === 0 ? goTo : undefined });
    const point = (at) => {
      joined.showLine(at, at === null ? "" : formatDay(at));
      joined.point(at);
    };
    element.addEventListener("pointermove", ({ clientX }) => point(roundToDay(valueAt(getAxis(), clientX - element.getBoundingClientRect().left))));
    element.addEventListener("pointerleave", () => point(null));
  });
}

document.querySelectorAll("[data-axis]").forEach(startCharts);
