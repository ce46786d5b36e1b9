// Latency percentiles of one run, as a Chart.js configuration.
import { chooseScale, formatValue } from "../../site/format.js";
import { BASE_OPTIONS, makeTooltipLook, makeValueScale, styleAxis } from "../shared/looks.js";
import { placeNames } from "../shared/line_names.js";
import { drawActiveMark } from "../shared/marks.js";
import { ninesOf, ninesTicks } from "../shared/nines_axis.js";
import { assignStyles, styleOf, withAlpha } from "../shared/palette.js";
import { logDomain } from "../shared/value_axis.js";

/** Up to this number of lines are labeled at their ends; more get a legend. */
export const MOST_END_LABELS = 6;
const BEFORE_DASH = [4, 4];

/**
 * Prepare lines [{name, run, rw, direction, isBefore, points: [{percent, value (ns)}]}], ascending by percent.
 * run: its name, "" without one. isBefore: of the run to compare with, whose line has the same style but fainter.
 * hidden: places of lines without marks. 0 ns and 100 % cannot be placed on these axes and are omitted; the table has them.
 */
export function preparePercentiles(lines, hidden = new Set()) {
  const own = lines.filter(({ isBefore }) => !isBefore);
  const styles = new Map(assignStyles(own).map((style, place) => [own[place].name, style]));
  const nameLine = ({ name, run }) => (own.length === 1 && run ? run : [name, run].filter(Boolean).join(", "));
  const drawn = [...own, ...lines.filter(({ isBefore }) => isBefore)].map((line, id) => ({
    ...line,
    id,
    isHidden: hidden.has(id),
    name: nameLine(line),
    style: styles.get(line.name) ?? styleOf(line),
    points: line.points.filter(({ percent, value }) => value > 0 && percent < 100),
  }));
  const listMarks = ({ name, points, isHidden }, datasetIndex) => (isHidden ? [] : points).map((point, index) => ({ ...point, name, element: { datasetIndex, index } }));
  const marks = drawn.map(listMarks);
  // The cursor starts at the last mark, which belongs to this run.
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

/** Build the configuration of Chart.js. colors: resolved CSS colors; names: LineNames. */
export function buildPercentiles(prepared, { colors, isNarrow = false, names = null }) {
  const { lines, scale } = prepared;
  const hasEndLabels = !isNarrow && lines.length <= MOST_END_LABELS;
  const findEnds = (chart) => (hasEndLabels ? listEnds(chart, lines) : []);
  return {
    type: "line",
    data: { datasets: lines.map((line) => makeDataset(line, colors)) },
    options: {
      ...BASE_OPTIONS,
      normalized: true,
      parsing: false,
      layout: { padding: { top: 8, right: hasEndLabels ? 120 : 12 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(lines, colors) },
      scales: {
        x: makeNinesScale(prepared.highest, { colors, isNarrow }),
        y: makeValueScale(prepared, { colors, name: `latency, ${scale.suffix} (log axis)` }),
      },
    },
    plugins: [placeNames(findEnds, names), drawActiveMark(colors)],
  };
}

/** Describe one mark, for the readout and screen readers. */
export function describeMark({ name, percent, value }) {
  return `${name} · ${percent} % of the I/Os within ${formatValue(value, "ns")}`;
}

function listEnds(chart, lines) {
  return lines.flatMap(({ id, name, isHidden }) => {
    const end = chart.getDatasetMeta(id).data.at(-1);
    return end === undefined || isHidden ? [] : [{ id, text: name, x: end.x, y: end.y }];
  });
}

// Previous run: thin and dashed, with small hollow marks.
function makeDataset({ name, isBefore, isHidden, style, points }, colors) {
  const color = colors.series[style.color];
  return {
    label: name,
    hidden: isHidden,
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
    ...styleAxis(colors, "Percentile"),
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
