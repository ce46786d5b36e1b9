// Navigation in a chart by pointer and keys: arrows one step, Page keys ten, Home and End, Enter opens.

const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageUp: -10, PageDown: 10 };

/**
 * Make the points of a chart selectable.
 * points: {count, elementAt(index) → {datasetIndex, index}, describe(index) → text, findNearest(pixel) → index,
 * open(index), optional; move(key, index) → index, optional, for other than linear movement;
 * onSelect(index), optional, also with null}.
 * getChart: returns the current chart (a theme change creates a new one).
 * Returns {mark(index or null)}: marks a point without telling it.
 */
export function startNavigation(box, readout, { getChart, points }) {
  const canvas = box.querySelector("canvas");
  let current = null;

  function mark(index) {
    current = index;
    const chart = getChart();
    const active = index === null ? [] : [points.elementAt(index)];
    const element = active.map(({ datasetIndex, index: place }) => chart.getDatasetMeta(datasetIndex).data[place])[0];
    chart.setActiveElements(active);
    chart.tooltip.setActiveElements(active, element ? { x: element.x, y: element.y } : { x: 0, y: 0 });
    chart.draw();
  }

  function select(index) {
    mark(index);
    points.onSelect?.(index);
    if (index !== null) {
      readout.textContent = points.describe(index);
    }
  }

  function pixelOf(event) {
    const bounds = canvas.getBoundingClientRect();
    return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
  }

  canvas.addEventListener("pointermove", (event) => {
    const nearest = points.findNearest(pixelOf(event));
    if (nearest !== null && nearest !== current) {
      select(nearest);
    }
  });
  canvas.addEventListener("pointerleave", () => {
    if (document.activeElement !== box) {
      select(null);
    }
  });
  canvas.addEventListener("click", (event) => {
    const nearest = points.findNearest(pixelOf(event));
    if (nearest !== null) {
      select(nearest);
      points.open?.(nearest);
    }
  });
  box.addEventListener("focus", () => points.count > 0 && select(current ?? points.count - 1));
  box.addEventListener("blur", () => select(null));
  box.addEventListener("keydown", (event) => {
    // Names of lines in the box are buttons.
    if (event.target !== box || points.count === 0) {
      return;
    }
    const index = points.move?.(event.key, current) ?? moveBy(event.key, current ?? points.count, points.count);
    if (index !== null) {
      event.preventDefault();
      select(index);
    } else if (event.key === "Enter" && current !== null) {
      event.preventDefault();
      points.open?.(current);
    }
  });
  return { mark };
}

/** Return the index after a key press; null for other keys. */
export function moveBy(key, from, count) {
  if (key === "Home" || key === "End") {
    return key === "Home" ? 0 : count - 1;
  }
  const step = STEPS[key];
  return step === undefined ? null : Math.min(count - 1, Math.max(0, from + step));
}
