// Charts of a page that are read together: a drag selects a range for all with the same kind of axis, a line marks the same place.
const DRAG_FROM_PX = 5;
const members = new Set();

/**
 * Join an element, such as the box of a chart, to the others of the page.
 * kind: of the axis; owner: elements of one owner draw their own marks of a place. getAxis: () → {left, right, top, bottom} in px
 * within the element with {from, to} of the axis, or null; times: of equally wide steps, where it is not linear. onZoom(range, null for all), optional: called for a drag in any of
 * them. follow(at, null for none), optional: marks a place, instead of a line.
 * Returns {point(at or null), zoom(range or null)}: do so in the others; and showLine(at or null, text): in this one.
 */
export function join(element, { kind, owner = element, getAxis, onZoom, follow }) {
  const line = addPart(element, "cursor-line");
  const showLine = (at, text = "") => {
    const axis = at === null ? null : getAxis();
    line.hidden = axis === null || at < axis.from || at > axis.to;
    line.dataset.text = text;
    if (!line.hidden) {
      place(line, axis, { from: at, to: at });
    }
  };
  const member = { kind, owner, onZoom, follow: follow ?? showLine };
  members.add(member);
  const others = () => [...members].filter((other) => other.kind === kind && other.owner !== owner);
  const zoom = (range) => others().forEach((other) => other.onZoom?.(range));
  startDrag(element, {
    getAxis,
    onRange: (range) => [...members].filter((other) => other.kind === kind).forEach((other) => other.onZoom?.(range)),
  });
  return { point: (at) => others().forEach((other) => other.follow(at)), zoom, showLine };
}

/** Return the axis of a chart of Chart.js for `join`. */
export function readAxis(chart) {
  if (!chart?.chartArea) {
    return null;
  }
  const { left, right, top, bottom } = chart.chartArea;
  return { left, right, top, bottom, from: chart.scales.x.min, to: chart.scales.x.max };
}

/** Return the value of an axis at a pixel, within its ends. */
export function valueAt({ left, right, from, to, times = [from, to] }, x) {
  const step = Math.min(1, Math.max(0, (x - left) / Math.max(1, right - left))) * (times.length - 1);
  const before = Math.min(Math.floor(step), times.length - 2);
  return times[before] + (step - before) * (times[before + 1] - times[before]);
}

/** Return the pixel of a value of an axis. */
export function pixelAt({ left, right, from, to, times = [from, to] }, value) {
  const after = Math.max(1, times.findIndex((time) => time >= value));
  const step = after - 1 + (value - times[after - 1]) / (times[after] - times[after - 1] || 1);
  return left + (step / (times.length - 1)) * (right - left);
}

function addPart(element, name) {
  const part = document.createElement("div");
  part.className = name;
  part.hidden = true;
  element.append(part);
  return part;
}

function place(part, axis, range) {
  const [left, right] = [range.from, range.to].map((value) => pixelAt(axis, value));
  part.style.left = `${left}px`;
  part.style.width = `${Math.max(1, right - left)}px`;
  part.style.top = `${axis.top}px`;
  part.style.height = `${axis.bottom - axis.top}px`;
}

// While a drag lasts, the chart does not see the pointer: it would select marks. The click at its end opens nothing.
function startDrag(element, { getAxis, onRange }) {
  const band = addPart(element, "drag-band");
  let pressed = null;
  let range = null;
  let wasDragged = false;
  const positionOf = ({ clientX }) => clientX - element.getBoundingClientRect().left;
  const stop = () => {
    pressed = null;
    range = null;
    band.hidden = true;
  };
  const listen = (name, act) => element.addEventListener(name, act, { capture: true });

  element.classList.add("joined");
  listen("pointerdown", (event) => {
    wasDragged = false;
    if (event.button === 0 && !event.target.closest("button")) {
      pressed = positionOf(event);
    }
  });
  listen("pointermove", (event) => {
    if (event.buttons === 0) {
      // Released outside of the element.
      pressed = null;
    }
    const x = positionOf(event);
    const axis = pressed === null ? null : getAxis();
    if (axis === null || (range === null && Math.abs(x - pressed) < DRAG_FROM_PX)) {
      return;
    }
    event.stopPropagation();
    if (range === null) {
      element.setPointerCapture(event.pointerId);
      wasDragged = true;
    }
    const [from, to] = [pressed, x].map((pixel) => valueAt(axis, pixel)).sort((a, b) => a - b);
    range = { from, to };
    band.hidden = false;
    place(band, axis, range);
  });
  listen("pointerup", () => {
    const selected = range;
    stop();
    if (selected !== null) {
      onRange(selected);
    }
  });
  listen("pointercancel", stop);
  listen("click", (event) => {
    if (wasDragged) {
      event.preventDefault();
      event.stopPropagation();
    }
  });
  // An image within a link would be dragged instead.
  listen("dragstart", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && range !== null) {
      stop();
    }
  });
}
