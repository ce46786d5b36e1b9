// Keyboard of a history: arrows select runs and series, + and − zoom, 0 shows all.

const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };

/** Start the keyboard of the main panel. history: the figure's. */
export function startHistoryKeys(history) {
  const { main } = history;
  // Focus by a click must not move the cursor away from the pointer.
  let isPressed = false;
  main.addEventListener("pointerdown", () => {
    isPressed = true;
    setTimeout(() => {
      isPressed = false;
    });
  });
  main.addEventListener("focus", () => {
    if (isPressed) {
      return;
    }
    history.select(history.mark ?? history.panels[0].marks.at(-1) ?? null);
  });
  main.addEventListener("blur", () => history.select(null));
  main.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== main) {
      return;
    }
    if (actOn(history, event.key)) {
      event.preventDefault();
    }
  });
}

function actOn(history, key) {
  const { marks } = history.panels[0];
  const zoom = { "+": () => history.zoomBy(0.5), "=": () => history.zoomBy(0.5), "-": () => history.zoomBy(2), 0: () => history.zoom({ ...history.whole.whole }) }[key];
  if (zoom !== undefined) {
    zoom();
    return true;
  }
  if (key === "Enter" && history.mark !== null) {
    history.open(history.mark);
    return true;
  }
  const next = walk(marks, { key, from: history.mark, lines: history.whole.lines });
  if (next === null) {
    return false;
  }
  history.select(next);
  return true;
}

/** Return the mark selected by a key, starting at `from` (null: the end); null for other keys or without marks. */
export function walk(marks, { key, from, lines }) {
  if (marks.length === 0) {
    return null;
  }
  const here = from ?? marks.at(-1);
  if (key === "ArrowUp" || key === "ArrowDown") {
    return lines.length === 1 ? step(marks, here, key === "ArrowUp" ? 1 : -1) : changeLine(marks, { here, lines, by: key === "ArrowUp" ? -1 : 1 });
  }
  const own = marks.filter(({ line }) => line === here.line);
  if (key === "Home" || key === "End") {
    return key === "Home" ? own[0] : own.at(-1);
  }
  return STEPS[key] === undefined ? null : step(own, here, STEPS[key]);
}

function step(own, here, by) {
  return own[Math.min(own.length - 1, Math.max(0, own.indexOf(here) + by))];
}

// The nearest mark in time on the next line with marks in view.
function changeLine(marks, { here, lines, by }) {
  const start = lines.indexOf(here.line);
  for (let place = 1; place <= lines.length; place += 1) {
    const line = lines[(start + by * place + lines.length * place) % lines.length];
    const own = marks.filter((mark) => mark.line === line);
    if (own.length > 0) {
      return own.reduce((best, mark) => (Math.abs(mark.at - here.at) < Math.abs(best.at - here.at) ? mark : best));
    }
  }
  return here;
}
