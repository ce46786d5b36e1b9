// Marks of the scaling charts: plugins of Chart.js.
import { readFontSize } from "../shared/colors.js";
import { drawHollowCross } from "../shared/marks.js";
import { withAlpha } from "../shared/palette.js";

// The second cue of a bar, beside its color: which lines run through it, in degrees.
export const HATCHES = {
  blue: [],
  orange: [45],
  green: [0],
  purple: [45, 135],
  sky: [90],
  brown: [135],
  gray: [0, 90],
  pink: [60],
};
const HATCH_STEP = 6;

/** Lines in the color of the paper through the bars, so that they differ without their color. */
export function drawHatches(styles, colors) {
  return {
    id: "hatches",
    afterDatasetsDraw(chart) {
      const { ctx } = chart;
      styles.forEach((style, dataset) => {
        for (const bar of chart.getDatasetMeta(dataset).data) {
          const { x, y, base, width } = bar.getProps(["x", "y", "base", "width"]);
          hatch(ctx, { left: x - width / 2, top: Math.min(y, base), width, height: Math.abs(base - y) }, HATCHES[style.color], colors);
        }
      });
    },
  };
}

function hatch(ctx, { left, top, width, height }, angles, { paper }) {
  if (!(height > 1) || angles.length === 0) {
    return;
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.strokeStyle = withAlpha(paper, 0.75);
  ctx.lineWidth = 1;
  const reach = Math.hypot(width, height);
  for (const angle of angles) {
    const [dx, dy] = [Math.cos((angle * Math.PI) / 180), -Math.sin((angle * Math.PI) / 180)];
    ctx.beginPath();
    for (let offset = -reach; offset <= reach; offset += HATCH_STEP) {
      const [cx, cy] = [left + width / 2 - dy * offset, top + height + dx * offset];
      ctx.moveTo(cx - dx * reach, cy - dy * reach);
      ctx.lineTo(cx + dx * reach, cy + dy * reach);
    }
    ctx.stroke();
  }
  ctx.restore();
}

/** p10 to p90 with caps, if a mark has several runs. */
export function drawWhiskers(marks, styles, { colors, isBars }) {
  return {
    id: "whiskers",
    afterDatasetsDraw(chart) {
      const { ctx, scales } = chart;
      ctx.save();
      ctx.lineWidth = 1.25;
      for (const { cell, element } of marks) {
        if (cell.state !== "measured" || cell.n < 2) {
          continue;
        }
        const { x } = placeOf(chart, element);
        const [top, bottom] = [scales.y.getPixelForValue(cell.p90), scales.y.getPixelForValue(cell.p10)];
        ctx.strokeStyle = isBars ? colors.ink : styles[element.datasetIndex].paint;
        ctx.beginPath();
        ctx.moveTo(x, top);
        ctx.lineTo(x, bottom);
        for (const y of [top, bottom]) {
          ctx.moveTo(x - 3, y);
          ctx.lineTo(x + 3, y);
        }
        ctx.stroke();
      }
      ctx.restore();
    },
  };
}

/** The value of the earlier period: an outline around a bar, a hollow ring for a line. */
export function drawEarlier(marks, styles, { isBars, isLog }) {
  return {
    id: "earlier",
    afterDatasetsDraw(chart) {
      const { ctx, scales } = chart;
      ctx.save();
      ctx.lineWidth = 1.5;
      ctx.setLineDash([3, 2]);
      for (const { cell, element } of marks) {
        const value = cell.earlier_median;
        if (value === null || (isLog && value <= 0)) {
          continue;
        }
        const place = placeOf(chart, element);
        const y = scales.y.getPixelForValue(value);
        ctx.strokeStyle = styles[element.datasetIndex].paint;
        ctx.beginPath();
        if (isBars) {
          const { width } = place.getProps(["width"]);
          ctx.rect(place.x - width / 2 - 1.5, y, width + 3, scales.y.bottom - y);
        } else {
          ctx.arc(place.x, y, 5, 0, 2 * Math.PI);
        }
        ctx.stroke();
      }
      ctx.restore();
    },
  };
}

/** Linear scaling from the first value, dashed, for each line. */
export function drawIdeals(lines, styles) {
  return {
    id: "ideals",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      ctx.save();
      ctx.beginPath();
      ctx.rect(chartArea.left, chartArea.top, chartArea.width, chartArea.height);
      ctx.clip();
      ctx.lineWidth = 1.25;
      ctx.setLineDash([5, 4]);
      lines.forEach((line, dataset) => {
        const data = chart.getDatasetMeta(dataset).data;
        ctx.strokeStyle = styles[dataset].paint;
        ctx.beginPath();
        line.forEach((cell, index) => {
          if (cell !== null && cell.ideal !== null) {
            ctx.lineTo(data[index].x, scales.y.getPixelForValue(cell.ideal));
          }
        });
        ctx.stroke();
      });
      ctx.restore();
    },
  };
}

/** Failed runs without a value: an outlined cross at the bottom. */
export function drawCrosses(marks, colors) {
  return {
    id: "crosses",
    afterDatasetsDraw(chart) {
      const { ctx, scales } = chart;
      ctx.save();
      for (const { cell, element } of marks) {
        if (cell.state !== "failed") {
          continue;
        }
        const { x } = placeOf(chart, element);
        const y = scales.y.bottom - 8;
        drawHollowCross(ctx, { x, y, colors });
      }
      ctx.restore();
    },
  };
}

/** Open changes: the direction of the value, above the mark, in the color of a regression or an improvement. */
export function drawChanges(marks, colors) {
  return {
    id: "changes",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      ctx.save();
      ctx.font = `${readFontSize()}px ${chart.options.font?.family ?? "sans-serif"}`;
      ctx.textAlign = "center";
      ctx.textBaseline = "bottom";
      for (const { cell, element } of marks) {
        if (cell.mark === null || cell.mark.kind === "settled" || cell.p90 === null) {
          continue;
        }
        const { x } = placeOf(chart, element);
        ctx.fillStyle = cell.mark.kind === "worse" ? colors.regression : colors.improvement;
        ctx.fillText(cell.mark.text[0], x, Math.max(scales.y.getPixelForValue(cell.p90) - 2, chartArea.top + 12));
      }
      ctx.restore();
    },
  };
}

/** The knee of a curve: a ring with a label. knees: [{line, place, label}]. */
export function drawKnees(knees, colors) {
  return {
    id: "knees",
    afterDatasetsDraw(chart) {
      const { ctx } = chart;
      ctx.save();
      ctx.font = `${readFontSize()}px ${chart.options.font?.family ?? "sans-serif"}`;
      for (const { line, place, label } of knees) {
        const { x, y } = chart.getDatasetMeta(line).data[place];
        ctx.strokeStyle = colors.ink;
        ctx.lineWidth = 1.5;
        ctx.beginPath();
        ctx.arc(x, y, 8, 0, 2 * Math.PI);
        ctx.stroke();
        ctx.fillStyle = colors.ink;
        ctx.textAlign = "right";
        ctx.textBaseline = "bottom";
        ctx.fillText(label, x - 10, y - 6);
      }
      ctx.restore();
    },
  };
}

function placeOf(chart, { datasetIndex, index }) {
  return chart.getDatasetMeta(datasetIndex).data[index];
}
