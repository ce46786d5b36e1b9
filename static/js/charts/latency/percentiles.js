// The latency percentiles of one run, as a configuration of Chart.js.
import { chooseScale, formatValue } from "../../site/format.js";
import { makeTooltipLook, makeValueScale, styleAxis } from "../shared/looks.js";
import { drawActiveMark, drawEndLabels } from "../shared/marks.js";
import { ninesOf, ninesTicks } from "../shared/nines_axis.js";
import { assignStyles, styleOf, withAlpha } from "../shared/palette.js";
import { logDomain } from "../shared/value_axis.js";

/** Up to so many lines are labelled at their ends; more would cover each other and get a legend. */
export const MOST_END_LABELS = 6;
const BEFORE_DASH = [4, 4];

/**
 * Prepare lines [{name, rw, direction, before, points: [{percent, value (ns)}]}], ascending by percent.
 * before: the number of an earlier run, whose line looks like the one of its name, but faint; none of this run's own.
 * A value of 0 ns has no place on a log axis and 100 % none on the other: both are left out, the table has them.
 */
export function preparePercentiles(lines) {
  const own = lines.filter(({ before }) => before === undefined);
  const styles = new Map(assignStyles(own).map((style, place) => [own[place].name, style]));
  const sayBefore = ({ name, before }) => (own.length === 1 ? `run ${before} before` : `${name}, run ${before} before`);
  const drawn = [...own, ...lines.filter(({ before }) => before !== undefined)].map((line) => ({
    ...line,
    name: line.before === undefined ? line.name : sayBefore(line),
    style: styles.get(line.name) ?? styleOf(line),
    points: line.points.filter(({ percent, value }) => value > 0 && percent < 100),
  }));
  const listMarks = ({ name, points }, datasetIndex) => points.map((point, index) => ({ ...point, name, element: { datasetIndex, index } }));
  const marks = drawn.map(listMarks);
  // The cursor begins at the last of them: one of this run's own.
  const ordered = [...marks.slice(own.length), ...marks.slice(0, own.length)].flat();
  const values = ordered.map((mark) => mark.value);
  return {
    lines: drawn,
    marks: ordered,
    scale: chooseScale(values, "ns"),
    isLog: true,
    domain: logDomain(values),
    highest: ordered.reduce((highest, mark) => Math.max(highest, mark.percent), 99),
  };
}

/** Build the configuration of Chart.js. colors: resolved CSS colors. */
export function buildPercentiles(prepared, { colors, isNarrow = false }) {
  const { lines, scale } = prepared;
  const hasEndLabels = !isNarrow && lines.length <= MOST_END_LABELS;
  const findEnds = (chart) => (hasEndLabels ? listEnds(chart, lines) : []);
  return {
    type: "line",
    data: { datasets: lines.map((line) => makeDataset(line, colors)) },
    options: {
      animation: false,
      events: [],
      maintainAspectRatio: false,
      normalized: true,
      parsing: false,
      responsive: true,
      layout: { padding: { top: 8, right: hasEndLabels ? 120 : 12 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(lines, colors) },
      scales: {
        x: makeNinesScale(prepared.highest, { colors, isNarrow }),
        y: makeValueScale(prepared, { colors, name: `latency, ${scale.suffix} (log axis)` }),
      },
    },
    plugins: [drawEndLabels(findEnds, colors), drawActiveMark(colors)],
  };
}

/** Say what one mark means; for the readout below the chart and for screen readers. */
export function describeMark({ name, percent, value }) {
  return `${name} · ${percent} % of the I/Os within ${formatValue(value, "ns")}`;
}

function listEnds(chart, lines) {
  return lines.flatMap(({ name }, index) => {
    const end = chart.getDatasetMeta(index).data.at(-1);
    return end === undefined ? [] : [{ text: name, x: end.x, y: end.y }];
  });
}

// A run before: thin, dashed, its marks hollow and small.
function makeDataset({ name, before, style, points }, colors) {
  const color = colors.series[style.color];
  const isBefore = before !== undefined;
  return {
    label: name,
    data: points.map(({ percent, value }) => ({ x: ninesOf(percent), y: value })),
    borderColor: isBefore ? withAlpha(color, 0.75) : color,
    borderDash: isBefore ? BEFORE_DASH : style.dash,
    borderWidth: isBefore ? 1 : 1.75,
    pointBackgroundColor: isBefore ? colors.paper : color,
    pointBorderColor: color,
    pointBorderWidth: isBefore ? 1 : 0,
    pointRadius: isBefore ? 2.5 : 3,
    pointStyle: style.shape,
  };
}

function makeNinesScale(highest, { colors, isNarrow }) {
  const ticks = ninesTicks(highest, { isNarrow });
  const labels = new Map(ticks.map((tick) => [tick.value, tick.label]));
  return {
    ...styleAxis(colors, "per cent of the I/Os at most that slow"),
    type: "linear",
    min: 0,
    max: ninesOf(highest) * 1.01,
    ticks: { ...styleAxis(colors).ticks, callback: (value) => labels.get(value) },
    afterBuildTicks: (axis) => {
      axis.ticks = ticks.map(({ value }) => ({ value }));
    },
  };
}

function makeTooltip(lines, colors) {
  return {
    ...makeTooltipLook(colors),
    callbacks: {
      title: ([item]) => lines[item.datasetIndex].name,
      label: ({ datasetIndex, dataIndex }) => {
        const { percent, value } = lines[datasetIndex].points[dataIndex];
        return `${percent} % within ${formatValue(value, "ns")}`;
      },
    },
  };
}
