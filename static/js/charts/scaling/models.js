// Scaling models: a dotted curve with its band over the measured widths, and hollow points at predicted ones.
import { readFontSize } from "../shared/colors.js";
import { withAlpha } from "../shared/palette.js";

const RADIUS = 4.5;

/** List the positions on x that the models of a panel cover, without those of bars, which have no axis of numbers. */
export function listModelPositions({ models }) {
  return models.flatMap(({ positions }) => positions);
}

/**
 * Draw the models of a panel. models: [{line (null: of all), positions, values, lows, highs, predictions: [{position, value, label}]}],
 * as the page carries them; bars show the curve at the measured widths only.
 */
export function drawModels(models, styles, { colors, prepared }) {
  return {
    id: "models",
    beforeDatasetsDraw(chart) {
      draw(chart, (ctx, model, locate) => fillBand(ctx, model, { locate, color: withAlpha(paintOf(model), 0.14) }));
    },
    afterDatasetsDraw(chart) {
      draw(chart, (ctx, model, locate) => {
        strokeCurve(ctx, model, { locate, color: paintOf(model) });
        markPredictions(ctx, model, { locate, color: paintOf(model), colors, label: chart.options.font?.family });
      });
    },
  };

  function paintOf({ line }) {
    return line === null ? colors.ink : styles[line].paint;
  }

  function draw(chart, each) {
    const { ctx, chartArea } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(chartArea.left, chartArea.top, chartArea.width, chartArea.height);
    ctx.clip();
    models.forEach((model) => each(ctx, model, (position, value) => locateValue(chart, prepared, { position, value })));
    ctx.restore();
  }
}

/** Return where a value of a model is drawn; null if it has no place on the axes. */
export function locateValue(chart, { isBars, isLog, x }, { position, value }) {
  const { scales } = chart;
  if (isLog && value <= 0) {
    return null;
  }
  const y = scales.y.getPixelForValue(value);
  if (!isBars) {
    return { x: scales.x.getPixelForValue(position), y };
  }
  const place = x.positions.findIndex((each) => Math.abs(each - position) < 1e-9);
  return place === -1 ? null : { x: scales.x.getPixelForValue(place), y };
}

function fillBand(ctx, { positions, lows, highs }, { locate, color }) {
  const upper = positions.map((position, index) => locate(position, highs[index]));
  const lower = positions.map((position, index) => locate(position, lows[index])).reverse();
  const points = [...upper, ...lower].filter((point) => point !== null);
  ctx.fillStyle = color;
  ctx.beginPath();
  points.forEach(({ x, y }) => ctx.lineTo(x, y));
  ctx.closePath();
  ctx.fill();
}

function strokeCurve(ctx, { positions, values }, { locate, color }) {
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.5;
  ctx.setLineDash([1.5, 3]);
  ctx.beginPath();
  positions
    .map((position, index) => locate(position, values[index]))
    .filter((point) => point !== null)
    .forEach(({ x, y }) => ctx.lineTo(x, y));
  ctx.stroke();
  ctx.setLineDash([]);
}

function markPredictions(ctx, { predictions }, { locate, color, colors, label }) {
  ctx.font = `${readFontSize()}px ${label ?? "sans-serif"}`;
  ctx.textAlign = "center";
  for (const { position, value, label: text } of predictions) {
    const at = locate(position, value);
    if (at !== null) {
      ctx.beginPath();
      ctx.arc(at.x, at.y, RADIUS, 0, 2 * Math.PI);
      ctx.fillStyle = colors.paper;
      ctx.fill();
      ctx.strokeStyle = color;
      ctx.lineWidth = 1.5;
      ctx.stroke();
      ctx.fillStyle = colors.ink;
      ctx.fillText(text, at.x, at.y - RADIUS - 4);
    }
  }
}
