// The keys of a history: arrows walk the runs of a line and change the line, + and − zoom, 0 shows all.

const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };

/** Let the main panel be walked and zoomed by keys. history: the figure's. */
export function startHistoryKeys(history) {
  const { main } = history;
  // A press of the pointer brings the focus along, but the cursor is where the pointer is.
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
  if (key === "Escape" && history.drag !== null) {
    history.drag = null;
    history.drawAgain();
    return true;
  }
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

/** Return the mark that a key leads to from another (null: from the end); null for other keys, or of no marks. */
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

// To the nearest in time of the next line that has a mark in view.
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
