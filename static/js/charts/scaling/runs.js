// The runs that values are made of: small dots over their bars and points.

const RADIUS = 2.25;
// Dots spread over this share of a bar's width.
const BAR_SHARE = 0.8;
// Steps of the golden ratio: neighbors are apart, and the same run is always at the same place.
const GOLDEN = 0.618034;
// The pointer selects a dot within this distance, else the value.
const REACH_PX = 6;

/** Dots spread over so many pixels around a point. */
export const POINT_WIDTH_PX = 18;

/** List the runs of marks [{cell, element}]: [{mark: its index, cell, element, place: of the run in its cell, value}]. */
export function listRuns(marks) {
  return marks.flatMap(({ cell, element }, mark) =>
    (cell.runs?.values ?? []).map((value, place) => ({ mark, cell, element, place, value })),
  );
}

/** Return where a run is drawn, in pixels; null if it has no place on the axes. */
export function locateRun(chart, { cell, element, place, value }, { isBars, isLog, over }) {
  const { scales } = chart;
  if (isLog && value <= 0) {
    return null;
  }
  const y = scales.y.getPixelForValue(value);
  if (over !== null) {
    const throughput = cell.runs.overs[place] ?? null;
    return throughput === null ? null : { x: scales.x.getPixelForValue(throughput), y };
  }
  const { x, width } = chart.getDatasetMeta(element.datasetIndex).data[element.index].getProps(["x", "width"]);
  const room = isBars ? width * BAR_SHARE : POINT_WIDTH_PX;
  return { x: x + ((((place + 1) * GOLDEN) % 1) - 0.5) * room, y };
}

/** Return the index of the run that a pixel selects; null of none. */
export function findRun(chart, runs, prepared, pixel) {
  let best = null;
  let bestDistance = REACH_PX;
  runs.forEach((run, index) => {
    const at = locateRun(chart, run, prepared);
    const distance = at === null ? Infinity : Math.hypot(at.x - pixel.x, at.y - pixel.y);
    if (distance <= bestDistance) {
      best = index;
      bestDistance = distance;
    }
  });
  return best;
}

/** Return the run that a key leads to: "." to the next one of the same value, "," to the one before; null of none. */
export function moveToRun(runs, key, { mark, run }) {
  const step = { ".": 1, ",": -1 }[key];
  if (step === undefined) {
    return null;
  }
  const own = runs.flatMap((each, index) => (each.mark === mark ? [index] : []));
  if (own.length === 0) {
    return null;
  }
  const from = run === null ? (step > 0 ? -1 : own.length) : own.indexOf(run);
  return own[Math.min(own.length - 1, Math.max(0, from + step))];
}

/** The dots of a panel; its active run has a ring. styles: with `paint` of each line. */
export function drawRuns(panel, styles, { colors, prepared }) {
  return {
    id: "runs",
    afterDatasetsDraw(chart) {
      const { ctx } = chart;
      ctx.save();
      ctx.lineWidth = 0.75;
      ctx.strokeStyle = colors.paper;
      for (const run of panel.runs) {
        const at = locateRun(chart, run, prepared);
        if (at !== null) {
          ctx.fillStyle = prepared.isBars ? colors.ink : styles[run.element.datasetIndex].paint;
          trace(ctx, at, RADIUS);
          ctx.fill();
          ctx.stroke();
        }
      }
      const active = panel.activeRun === null ? null : locateRun(chart, panel.runs[panel.activeRun], prepared);
      if (active !== null) {
        ctx.strokeStyle = colors.ink;
        ctx.lineWidth = 2;
        trace(ctx, active, RADIUS + 3);
        ctx.stroke();
      }
      ctx.restore();
    },
  };
}

function trace(ctx, { x, y }, radius) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
}
