// Runs before and after a change: one mark per run, median and p10 to p90 of each side.
import { chooseScale, formatDifference, formatValue, nameUnit } from "../../site/format.js";
import { withUnit } from "../history/history.js";
import { BASE_OPTIONS, makeTooltipLook, makeValueScale, styleAxis } from "../shared/looks.js";
import { drawActiveMark } from "../shared/marks.js";
import { withAlpha } from "../shared/palette.js";
import { lineDomain } from "../shared/value_axis.js";
import { formatMoment } from "../shared/zones.js";

const SIDES = ["before", "after"];
const SHAPES = { before: "circle", after: "triangle" };
// Half the width of a side's band and of the area of its marks, relative to the distance of the sides.
const BAND = 0.34;
const SPREAD = 0.24;
// Steps of the golden ratio spread any number of marks evenly and deterministically.
const GOLDEN = 0.618034;

/**
 * Prepare the document of web/incidents/evidence_chart.py: {metric: {unit, label}, is_regression, before, after}; each side is
 * {median, p10, p90, points: [{run, at, value}]}. Returns {entries, sides, metric, scale, domain, isRegression}.
 */
export function prepareEvidence({ metric, is_regression: isRegression, ...both }) {
  const sides = SIDES.map((name) => ({ name, ...both[name] }));
  const entries = sides.flatMap(({ name, points }, place) =>
    points.map((point, index) => ({
      ...point,
      at: Date.parse(point.at),
      side: name,
      x: place + (((index + 1) * GOLDEN) % 1 - 0.5) * 2 * SPREAD,
      element: { datasetIndex: place, index },
    })),
  );
  const values = entries.map(({ value }) => value);
  const scale = chooseScale(values, metric.unit);
  return { entries, sides, metric, scale, isRegression, domain: lineDomain(values, scale.divisor) };
}

/** Describe one run for the readout and for screen readers. */
export function describeEntry({ sides, metric }, { side, at, value }) {
  const { median } = sides[0];
  const difference = side === "after" ? formatDifference(value, median) : null;
  const parts = [`${side === "before" ? "Before" : "After"}, ${formatMoment(at)}`, withUnit(value, metric.unit)];
  return [...parts, ...(difference === null ? [] : [`${difference} vs. median before`])].join(" · ");
}

/** Build the configuration of Chart.js. colors: resolved CSS colors. */
export function buildEvidence(evidence, { colors }) {
  const { entries, sides, metric, scale, domain } = evidence;
  const unitName = nameUnit(scale, metric.unit);
  const name = metric.label === unitName ? metric.label : `${metric.label}, ${unitName}`;
  return {
    type: "scatter",
    data: {
      datasets: sides.map((side) => ({
        data: entries.filter((entry) => entry.side === side.name).map(({ x, value }) => ({ x, y: value })),
        pointStyle: SHAPES[side.name],
        pointRadius: 3.5,
        backgroundColor: withAlpha(colorOf(evidence, side.name, colors), 0.7),
        borderWidth: 0,
      })),
    },
    options: {
      ...BASE_OPTIONS,
      layout: { padding: { top: 8, right: 8 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(evidence, colors) },
      scales: {
        x: makeSideScale(sides, colors),
        y: makeValueScale({ domain, scale, isLog: false }, { colors, name: domain.startsAtZero ? name : `${name} (not from 0)` }),
      },
    },
    plugins: [drawLevels(evidence, colors), drawActiveMark(colors)],
  };
}

function colorOf({ isRegression }, side, colors) {
  if (side === "before") {
    return colors.series.gray;
  }
  return isRegression ? colors.regression : colors.improvement;
}

function makeSideScale(sides, colors) {
  const count = (points) => (points.length === 1 ? "1 run" : `${points.length} runs`);
  return {
    ...styleAxis(colors),
    type: "linear",
    min: -0.5,
    max: 1.5,
    ticks: { ...styleAxis(colors).ticks, callback: (value) => `${sides[value].name}, ${count(sides[value].points)}` },
    afterBuildTicks: (axis) => {
      axis.ticks = sides.map((_, value) => ({ value }));
    },
  };
}

function drawLevels(evidence, colors) {
  const { sides, metric } = evidence;
  const each = (chart, draw) => {
    const { ctx, scales } = chart;
    ctx.save();
    sides.forEach((side, place) => {
      if (side.median !== null) {
        const [left, right] = [place - BAND, place + BAND].map((x) => scales.x.getPixelForValue(x));
        draw(ctx, side, { left, right, y: (value) => scales.y.getPixelForValue(value), color: colorOf(evidence, side.name, colors) });
      }
    });
    ctx.restore();
  };
  return {
    id: "levels",
    beforeDatasetsDraw(chart) {
      each(chart, (ctx, { p10, p90, points }, { left, right, y, color }) => {
        if (points.length > 2) {
          ctx.fillStyle = withAlpha(color, 0.16);
          ctx.fillRect(left, y(p90), right - left, Math.max(1, y(p10) - y(p90)));
        }
      });
    },
    afterDatasetsDraw(chart) {
      each(chart, (ctx, { median }, { left, right, y, color }) => {
        ctx.fillStyle = color;
        ctx.fillRect(left, y(median) - 1, right - left, 2);
        const text = formatValue(median, metric.unit);
        ctx.font = `600 11px ${chart.options.font?.family ?? "sans-serif"}`;
        ctx.textAlign = "center";
        ctx.textBaseline = "bottom";
        ctx.lineWidth = 4;
        ctx.lineJoin = "round";
        ctx.strokeStyle = colors.paper;
        ctx.strokeText(text, (left + right) / 2, y(median) - 3);
        ctx.fillStyle = colors.ink;
        ctx.fillText(text, (left + right) / 2, y(median) - 3);
      });
    },
  };
}

function makeTooltip(evidence, colors) {
  const find = ({ datasetIndex, dataIndex }) => evidence.entries.find(({ element }) => element.datasetIndex === datasetIndex && element.index === dataIndex);
  return {
    ...makeTooltipLook(colors),
    callbacks: {
      title: ([item]) => formatMoment(find(item).at),
      label: (item) => describeEntry(evidence, find(item)).split(" · ").slice(1),
      footer: () => "open run",
    },
  };
}
