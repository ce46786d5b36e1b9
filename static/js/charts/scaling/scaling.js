// One metric over one dimension, as grouped bars or lines, a panel for each facet: configurations of Chart.js.
import { chooseScale, formatValue, nameUnit } from "../../site/format.js";
import { drawLimits } from "./limits.js";
import { formatMoment } from "../shared/zones.js";
import { BASE_OPTIONS, makeTooltipLook, makeValueScale, styleAxis } from "../shared/looks.js";
import { placeNames } from "../shared/line_names.js";
import { drawActiveMark, drawMessage } from "../shared/marks.js";
import { assignStyles, withAlpha } from "../shared/palette.js";
import {
  drawChanges,
  drawCrosses,
  drawEarlier,
  drawHatches,
  drawIdeals,
  drawKnees,
  drawWhiskers,
} from "./marks.js";
import { drawModels, listModelPositions } from "./models.js";
import { drawRuns, listRuns, POINT_WIDTH_PX } from "./runs.js";
import { isLogWorthwhile, lineDomain, logDomain } from "../shared/value_axis.js";

/** Up to this many lines have labels at their ends; more lines get a legend. */
const MOST_END_LABELS = 6;
const ROOM_FOR_IDEAL = 1.25;
// Title and labels of up to seven characters at 11 px.
const STACKED_AXIS_WIDTH = 72;

/**
 * Prepare what the panels of a metric share.
 * Returns the data with styles, one scale and domain for all panels, and the marks that can be walked, by line. hidden: places of lines without marks.
 */
export function prepareScaling(data, hidden = new Set()) {
  const facets = data.facets.map((facet) => hideLines(facet, hidden));
  const cells = facets.flatMap((facet) => facet.lines.flat().filter((cell) => cell !== null));
  const isLog = data.scale === "log";
  const values = listValues(cells).filter((value) => !isLog || value > 0);
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  const limits = facets.flatMap((facet) => facet.limits.flatMap((limit) => limit.values));
  const ideals = data.ideal ? cells.map((cell) => cell.ideal).filter((ideal) => ideal !== null) : [];
  const within = [
    ...values,
    // The axis is that of the values: a limit above it is an arrow.
    ...limits.filter((value) => value !== null && value <= most && (!isLog || value > 0)),
    ...ideals.map((ideal) => Math.min(ideal, ROOM_FOR_IDEAL * most)),
    ...facets.flatMap((facet) => facet.models.flatMap(({ lows, highs }) => [...lows, ...highs])),
  ];
  const scale = chooseScale(values, data.metric.unit);
  return {
    ...data,
    styles: assignStyles(data.colors),
    isBars: data.draw === "bars" && data.over === null,
    isLog,
    scale,
    unit: data.metric.unit,
    canBeLog: isLogWorthwhile(values),
    domain: findDomain(within, { isLog, divisor: scale.divisor, isBars: data.draw === "bars" && data.over === null }),
    panels: facets.map(preparePanel),
    hidden,
  };
}

function hideLines({ lines, knees, models, ...facet }, hidden) {
  const isShown = ({ line }) => !hidden.has(line);
  return {
    ...facet,
    lines: lines.map((line, place) => (hidden.has(place) ? line.map(() => null) : line)),
    knees: knees.filter(isShown),
    models: models.filter(isShown),
  };
}

function listValues(cells) {
  return cells
    .flatMap((cell) => [cell.median, cell.p10, cell.p90, cell.earlier_median, ...(cell.runs?.values ?? [])])
    .filter((value) => value !== null && value !== undefined);
}

function findDomain(values, { isLog, divisor, isBars }) {
  if (isLog) {
    return { ...logDomain(values), startsAtZero: false };
  }
  return lineDomain(isBars ? [0, ...values] : values, divisor);
}

// activeRun: index of the run that is selected; null if a value or nothing is.
function preparePanel(facet) {
  const marks = listMarks(facet);
  return { ...facet, marks, runs: listRuns(marks), activeRun: null };
}

function listMarks(facet) {
  return facet.lines.flatMap((line, datasetIndex) =>
    line.flatMap((cell, index) => (cell === null ? [] : [{ cell, element: { datasetIndex, index } }])),
  );
}

/** Prepare the charts of all metrics. data: as the page carries it (benchapp/charts/pages/scaling_figure.py). */
export function prepareStack({ layers, display, ...data }, hidden) {
  return layers.map((layer) => prepareScaling({ ...data, ...display, ...layer, isStacked: layers.length > 1 }, hidden));
}

/** Return the mark of an element in a panel; undefined if it has none. */
export function findMark(panel, { datasetIndex, index }) {
  return panel.marks.find(({ element }) => element.datasetIndex === datasetIndex && element.index === index);
}

/** Describe a place in all charts of a panel: in full in its own one, by the value in the others. */
export function describeStacked(stack, { layer, place, element }) {
  const own = stack[layer];
  const panel = own.panels[place];
  const others = stack
    .filter((prepared) => prepared !== own)
    .map((prepared) => {
      const mark = findMark(prepared.panels[place], element);
      return `${prepared.metric.label}: ${mark === undefined ? "no value" : describeLines(prepared, mark)[0]}`;
    });
  const name = nameCell(own, panel, { element }).join(" · ");
  const lines = describeLines(own, findMark(panel, element));
  return stack.length === 1 ? [name, ...lines].join(" · ") : [name, ...others, `${own.metric.label}: ${lines[0]}`, ...lines.slice(1)].join(" · ");
}

/** Describe a mark in one line, for the readout below the chart and for screen readers. */
export function describeCell(prepared, panel, mark) {
  return [...nameCell(prepared, panel, mark), ...describeLines(prepared, mark)].join(" · ");
}

function nameCell({ x, colors }, panel, { element }) {
  const named = colors.length > 1 ? [colors[element.datasetIndex].label] : [];
  return [...named, ...(panel.label === "" ? [] : [panel.label]), x.settings[element.index]];
}

/** List the lines of the tooltip of a cell. */
export function describeLines({ unit, over, metric }, { cell }) {
  if (cell.state === "failed") {
    return [`failed, no ${metric.label}`];
  }
  const lines = [withUnit(cell.median, unit)];
  if (over !== null && cell.over !== null) {
    lines.push(`at ${withUnit(cell.over, over.unit)}`);
  }
  if (cell.state === "measured") {
    lines.push(cell.n === 1 ? "one run, no spread" : `p10–p90 ${formatValue(cell.p10, unit)} to ${formatValue(cell.p90, unit)}, n ${cell.n}`);
  }
  if (cell.efficiency !== null) {
    lines.push(`${Math.round(cell.efficiency * 100)} % of ideal`);
  }
  if (cell.earlier_median !== null) {
    lines.push(`earlier: ${formatValue(cell.earlier_median, unit)}`);
  }
  if (cell.series > 1 && cell.state === "measured") {
    lines.push(`median of ${cell.series} series`);
  }
  if (cell.mark !== null) {
    lines.push(cell.mark.text);
  }
  if (cell.settings) {
    lines.push(cell.settings);
  }
  if (cell.badges.length > 0) {
    lines.push(`badges: ${cell.badges.join(", ")}`);
  }
  return cell.lastAt === null ? lines : [...lines, `last ${formatMoment(cell.lastAt)}`];
}

/** Describe a run of a panel in one line. run: its index. */
export function describeRun(prepared, panel, run) {
  return [...nameCell(prepared, panel, panel.runs[run]), ...describeRunLines(prepared, panel.runs[run])].join(" · ");
}

/** List the lines of the tooltip of a run. */
export function describeRunLines({ unit, over }, { cell, place, value }) {
  const { names, hosts, overs, times } = cell.runs;
  const throughput = overs[place] ?? null;
  return [
    `one run: ${withUnit(value, unit)}`,
    ...(over !== null && throughput !== null ? [`at ${withUnit(throughput, over.unit)}`] : []),
    // A shared study names no hosts.
    ...(hosts.length === 0 ? [] : [names[hosts[place]]]),
    formatMoment(times[place]),
  ];
}

/** Return the mark that ArrowUp or ArrowDown leads to: the next line at the same x; null for other keys. */
export function moveWithin(panel, from, key) {
  const step = { ArrowUp: 1, ArrowDown: -1 }[key];
  if (step === undefined || from === null) {
    return null;
  }
  const { datasetIndex, index } = panel.marks[from].element;
  for (let line = datasetIndex + step; line >= 0 && line < panel.lines.length; line += step) {
    const found = panel.marks.findIndex(({ element }) => element.datasetIndex === line && element.index === index);
    if (found !== -1) {
      return found;
    }
  }
  return from;
}

/** Return whether names at the ends of the lines have room, instead of a legend: models may go beyond the last value. */
export function fitsEndLabels({ isBars, panels, colors }, isNarrow) {
  return !isBars && !isNarrow && panels.length === 1 && colors.length <= MOST_END_LABELS && panels[0].models.length === 0;
}

/** Build the configuration of one panel. place: of the facet; colors: resolved CSS colors; names: LineNames. */
export function buildScaling(prepared, place, { colors, isNarrow = false, names = null }) {
  const panel = prepared.panels[place];
  const hasEndLabels = prepared.colors.length > 1 && fitsEndLabels(prepared, isNarrow);
  const look = { prepared, panel, colors, names };
  return {
    type: prepared.isBars ? "bar" : "line",
    data: {
      // The parts of a combined axis are lines of its labels.
      labels: prepared.isBars ? prepared.x.ticks.map((parts) => (parts.length === 1 ? parts[0] : parts)) : undefined,
      datasets: panel.lines.map((line, index) => makeDataset(look, line, index)),
    },
    options: {
      ...BASE_OPTIONS,
      normalized: true,
      layout: { padding: { top: 8, right: hasEndLabels ? 124 : 12 } },
      plugins: { legend: { display: false }, tooltip: makeTooltip(look) },
      scales: {
        x: prepared.isBars ? makeCategories(look) : makePositions(look, isNarrow),
        y: { ...makeValueScale(prepared, { colors, name: nameAxis(prepared) }), ...(prepared.isStacked ? { afterFit: widen } : {}) },
      },
    },
    plugins: listPlugins(look, hasEndLabels),
  };
}

// Equal widths, so that the same x is at the same place in all charts.
function widen(axis) {
  axis.width = Math.max(axis.width, STACKED_AXIS_WIDTH);
}

function listPlugins({ prepared, panel, colors, names }, hasEndLabels) {
  const styles = prepared.styles.map((style) => ({ ...style, paint: colors.series[style.color] }));
  const marks = panel.marks;
  const findEnds = (chart) => (hasEndLabels ? listEnds(chart, prepared, panel) : []);
  return [
    ...(prepared.isBars ? [drawHatches(styles, colors)] : []),
    drawEarlier(marks, styles, prepared),
    drawWhiskers(marks, styles, { colors, isBars: prepared.isBars }),
    ...(panel.runs.length > 0 ? [drawRuns(panel, styles, { colors, prepared })] : []),
    ...(prepared.ideal ? [drawIdeals(panel.lines, styles)] : []),
    ...(panel.models.length > 0 ? [drawModels(panel.models, styles, { colors, prepared })] : []),
    drawCrosses(marks, colors),
    drawChanges(marks, colors),
    drawKnees(panel.knees, colors),
    drawLimits(panel.limits, prepared, { colors, format: (value) => withUnit(value, prepared.unit) }),
    placeNames(findEnds, names),
    ...(marks.length === 0 ? [drawMessage("No values", colors)] : []),
    markValue(panel, drawActiveMark(colors)),
  ];
}

// A selected run has its own ring.
function markValue(panel, mark) {
  return {
    ...mark,
    afterDatasetsDraw: (chart) => {
      if (panel.activeRun === null) {
        mark.afterDatasetsDraw(chart);
      }
    },
  };
}

function listEnds(chart, prepared, panel) {
  return panel.lines.flatMap((line, index) => {
    const last = line.findLastIndex((cell) => cell !== null && cell.median !== null);
    const element = chart.getDatasetMeta(index).data[last];
    return element === undefined ? [] : [{ id: index, text: prepared.colors[index].label, x: element.x + (panel.runs.length > 0 ? POINT_WIDTH_PX / 2 : 0), y: element.y }];
  });
}

function makeDataset({ prepared, colors }, line, index) {
  const style = prepared.styles[index];
  const color = colors.series[style.color];
  const valueOf = (cell) => (cell === null || cell.median === null || (prepared.isLog && cell.median <= 0) ? null : cell.median);
  const hidden = prepared.hidden.has(index);
  if (prepared.isBars) {
    return {
      hidden,
      data: line.map(valueOf),
      backgroundColor: withAlpha(color, prepared.isLog ? 0.35 : 0.88),
      borderColor: color,
      borderWidth: prepared.isLog ? { top: 2 } : 0,
      categoryPercentage: 0.82,
      barPercentage: 0.92,
      maxBarThickness: 56,
    };
  }
  return {
    hidden,
    data: line.map((cell, place) => ({ x: findPosition(prepared, cell, place), y: valueOf(cell) ?? NaN })),
    parsing: false,
    borderColor: color,
    borderDash: style.dash,
    borderWidth: prepared.draw === "points" ? 0 : 2,
    pointStyle: style.shape,
    pointRadius: 4,
    pointBackgroundColor: color,
    pointBorderWidth: 0,
    spanGaps: false,
    tension: 0,
  };
}

function findPosition({ over, x }, cell, place) {
  if (over !== null) {
    return cell === null || cell.over === null ? NaN : cell.over;
  }
  return x.positions[place];
}

function makeCategories({ prepared, colors }) {
  const axis = styleAxis(colors, prepared.x.label);
  return { ...axis, ticks: { ...axis.ticks, autoSkip: true, autoSkipPadding: 6 } };
}

function makePositions({ prepared, colors }, isNarrow) {
  const { x, over } = prepared;
  if (over !== null) {
    return makeOverScale(prepared, colors);
  }
  const modeled = prepared.panels.flatMap(listModelPositions);
  const first = x.positions[0];
  const last = Math.max(x.positions.at(-1), ...modeled);
  const room = first === last ? 1 : (last - first) * 0.04;
  const labels = new Map(x.positions.map((position, place) => [position, x.labels[place]]));
  return {
    ...styleAxis(colors, x.label),
    type: "linear",
    min: first - room,
    max: last + room,
    ticks: { ...styleAxis(colors).ticks, autoSkip: isNarrow || x.labels.length > 12, autoSkipPadding: 8, callback: (value) => labels.get(value) },
    afterBuildTicks: (axis) => {
      axis.ticks = x.positions.map((value) => ({ value }));
    },
  };
}

function makeOverScale({ over, panels }, colors) {
  const values = panels.flatMap(({ marks }) => marks.map(({ cell }) => cell.over)).filter((value) => value !== null);
  const scale = chooseScale(values, over.unit);
  const unitName = nameUnit(scale, over.unit);
  const name = unitName === "" || over.label === unitName ? over.label : `${over.label}, ${unitName}`;
  const axis = makeValueScale({ domain: lineDomain([0, ...values], scale.divisor), scale, isLog: false }, { colors, name });
  return { ...axis, border: { color: colors.fieldLine }, grid: { drawOnChartArea: false, color: colors.fieldLine, tickLength: 4 } };
}

function nameAxis({ metric, scale, unit, isLog, domain }) {
  const unitName = nameUnit(scale, unit);
  const name = metric.label === unitName || unit === "operations/s" ? metric.label : `${metric.label}, ${unitName}`;
  if (isLog) {
    return `${name} (log axis)`;
  }
  return domain.startsAtZero ? name : `${name} (axis does not start at 0)`;
}

function makeTooltip({ prepared, panel, colors }) {
  const find = ({ datasetIndex, dataIndex }) => findMark(panel, { datasetIndex, index: dataIndex });
  return {
    ...makeTooltipLook(colors),
    callbacks: {
      title: ([item]) => nameCell(prepared, panel, find(item)).join(" · "),
      label: (item) => (panel.activeRun === null ? describeLines(prepared, find(item)) : describeRunLines(prepared, panel.runs[panel.activeRun])),
      footer: ([item]) => (panel.activeRun === null ? describeLink(find(item).cell) : describeRunLink(panel.runs[panel.activeRun].cell)),
    },
  };
}

function describeLink({ url, series }) {
  if (!url) {
    return "";
  }
  return series > 1 ? "Click or Enter: list of series" : "Click or Enter: series";
}

function describeRunLink({ runs }) {
  return runs.ids.length > 0 ? "Click or Enter: run" : "";
}

function withUnit(value, unit) {
  return unit === "operations/s" ? `${formatValue(value, unit)} IOPS` : formatValue(value, unit);
}
