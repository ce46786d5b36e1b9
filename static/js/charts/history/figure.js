// A history chart: renders panels, overview and ticks; keyboard, zoom.
import { describeMark, describeValue, listChanges, formatSpan } from "./history.js";
import { buildPanel, findMark, preparePanel } from "./panel.js";
import { clampView, isWhole, zoomAround } from "../shared/zoom.js";
import { formatMoment, makeZone, PAGE_ZONE } from "../shared/zones.js";
import { keepInAddress, setParameters } from "../../site/address.js";
import { findOwnZone } from "../../site/browser_zone.js";
import { startBrush } from "./brush.js";
import { onWidthChange, showProblem, startChart } from "../shared/chart_frame.js";
import { drawStrip, placeChanges, showLegend } from "./around.js";
import { startControls } from "./controls.js";
import { startHistoryKeys } from "./keys.js";
import { HistoryNumbers, writeSpan } from "./numbers.js";
import { startHistoryPointer } from "./pointer.js";
import { placePlanned } from "./planned.js";
import { startTip } from "./tip.js";
import { LineNames } from "../shared/line_names.js";
import { nameKey } from "../shared/palette.js";

// Downsampled data is loaded at higher resolution after a zoom.
const SETTLED_MS = 250;

/** Start one figure. onView(span or null): called after a zoom; null is the whole history. onZone: called for a time zone. */
export function startHistory(figure, { onView = () => {}, onZone = () => {} } = {}) {
  return new HistoryFigure(figure, { onView, onZone }).start(figure.dataset);
}

class HistoryFigure {
  constructor(figure, { onView, onZone }) {
    this.figure = figure;
    this.onView = onView;
    this.onZone = onZone;
    this.main = figure.querySelector(".chart-box.main");
    this.boxes = [...figure.querySelectorAll(".chart-box")];
    this.metrics = this.boxes.map((box) => box.dataset.metric);
    this.strip = figure.querySelector("[data-overview]");
    this.mark = null;
    this.charts = [];
    this.zone = this.findZone();
    this.tip = startTip(figure);
    this.numbers = new HistoryNumbers(figure);
    const names = this.whole.lines.map(({ id, name, style }) => ({ id, name, key: nameKey(style) }));
    this.names = new LineNames(figure, names, () => this.redraw());
  }

  start({ from, to }) {
    const { whole } = this.whole;
    if (this.whole.lines.length === 0 || this.whole.marks.length === 0) {
      showProblem(this.main, "No runs to display. Select other series or change the filter.");
      return;
    }
    const asked = { from: from ? Date.parse(from) : whole.from, to: to ? Date.parse(to) : whole.to };
    // The part of a range before the first run would be empty; the page says where the runs begin.
    asked.from = asked.to > whole.from ? Math.max(asked.from, whole.from) : asked.from;
    this.view = from || to ? asked : { ...whole };
    this.prepare();
    this.drawPanels();
    this.startOverview();
    startControls(this);
    showLegend(this);
    onWidthChange(this.main, () => showLegend(this));
    this.onZone(this.zone);
    this.refresh({ isFirst: true });
  }

  get whole() {
    return this.numbers.whole;
  }

  /** Maintenance, expected changes and notes, ascending by start. */
  get planned() {
    return this.whole.planned;
  }

  prepare() {
    const { limit, limitLabel, references, scale } = this.figure.dataset;
    this.panels = this.metrics.map((metric, place) =>
      preparePanel(this.numbers.shown, {
        metric,
        view: this.view,
        isLog: scale === "log",
        hidden: this.names.hidden,
        limit: place > 0 || limit === undefined ? null : { value: Number(limit), label: limitLabel },
        references: place > 0 ? [] : JSON.parse(references || "[]"),
      }),
    );
    this.changes = listChanges(this.whole.lines);
  }

  drawPanels() {
    const getState = () => ({ mark: this.mark });
    this.charts = this.boxes.map((box, place) =>
      startChart(box, ({ colors, width, isNarrow }) =>
        buildPanel(this.panels[place], {
          colors,
          look: { width, isNarrow, isMain: place === 0, zone: this.zone },
          getState,
          names: this.names,
          changes: this.changes,
          planned: this.planned,
          onLayout: place === 0 ? () => this.placeSoon() : undefined,
        }),
      ),
    );
    const draw = () => this.charts.forEach(({ getChart }) => getChart().draw());
    this.drawAgain = draw;
    this.joined = startHistoryPointer(this);
    startHistoryKeys(this);
  }

  describeView(isAll) {
    const count = this.panels[0].marks.reduce((sum, { n }) => sum + n, 0);
    const runs = count === 1 ? "1 run" : `${count.toLocaleString("en").replaceAll(",", "\u202f")} runs`;
    return isAll ? `Whole history: ${runs}.` : `${this.formatTime(this.view.from)} to ${this.formatTime(this.view.to)}: ${runs} in view.`;
  }

  startOverview() {
    this.brush = startBrush(this.strip, {
      getState: () => ({ view: this.view, whole: this.whole.whole, area: this.area }),
      onMove: (view) => this.zoom(view),
      format: (at) => this.formatTime(at),
    });
  }

  /** Display times in another zone: utc, own (the browser's), host; "" is the zone of the page. */
  changeZone(name) {
    this.figure.dataset.zone = name;
    this.zone = this.findZone();
    this.redraw();
    this.onZone(this.zone);
    this.keepInAddress({ tz: name === "" ? null : name });
  }

  findZone() {
    const { zone, hostZone } = this.figure.dataset;
    const name = { own: findOwnZone(), host: hostZone || findOwnZone(), utc: "UTC" }[zone];
    return name === undefined ? PAGE_ZONE : makeZone(name);
  }

  zoomBy(factor) {
    const at = this.mark?.at ?? (this.view.from + this.view.to) / 2;
    this.zoom(zoomAround(this.view, at, { factor, whole: this.whole.whole }));
  }

  /** Zoom to a view, with the other charts of the page. */
  zoom(view) {
    this.zoomAlone(view);
    this.joined.zoom(isWhole(this.view, this.whole.whole) ? null : this.view);
  }

  /** Zoom to the range of another chart, null for all; not to one without a run of this history. */
  followZoom(range) {
    const { whole } = this.whole;
    if (range === null || (range.from <= whole.to && range.to >= whole.from)) {
      this.zoomAlone(range ?? { ...whole });
    }
  }

  zoomAlone(view) {
    const { whole } = this.whole;
    this.view = isWhole(view, whole) ? { ...whole } : clampView(view, whole);
    this.numbers.coarsen();
    this.redraw();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), SETTLED_MS);
  }

  async settle() {
    const isAll = isWhole(this.view, this.whole.whole);
    const span = isAll ? null : writeSpan(this.view);
    if (this.mark === null) {
      this.readout.textContent = this.describeView(isAll);
    }
    this.keepInAddress({ from: span?.from ?? null, to: span?.to ?? null, page: null });
    // The image of a figure shows its range; the menu of a page is replaced with the texts.
    for (const link of this.figure.querySelectorAll("[data-image]")) {
      link.href = setParameters(link.href, { from: span?.from ?? null, to: span?.to ?? null });
    }
    this.onView(span);
    try {
      if (await this.numbers.refine(span)) {
        this.mark = null;
        this.redraw();
      }
    } catch (error) {
      if (error.name !== "AbortError") {
        this.readout.textContent = `${error.message} Displayed at lower resolution.`;
      }
    }
  }

  redraw() {
    this.prepare();
    if (this.mark !== null && !this.panels[0].marks.includes(this.mark)) {
      this.select(null);
    }
    this.charts.forEach(({ redraw }) => redraw());
    this.refresh({});
  }

  refresh({ isFirst = false }) {
    const isAll = isWhole(this.view, this.whole.whole);
    this.show("[data-zoom=reset]", !isAll);
    this.show("[data-thinned]", this.numbers.shown.isThinned);
    this.show("[data-daily]", this.numbers.shown.dailyTo !== null);
    this.show("[data-spread-increases]", this.panels.some(({ metric, lines }) => lines.some(({ spreadIncreases }) => spreadIncreases.some((found) => found.metric === metric))));
    this.show("[data-small-steps]", this.panels[0].lines.some(({ smallSteps }) => smallSteps.length > 0));
    this.show("[data-thresholds]", this.panels.some(({ thresholds }) => thresholds.length > 0));
    this.show("[data-log-offer]", this.panels[0].canBeLog);
    this.main.querySelector(".chart-notice")?.remove();
    if (this.panels[0].marks.length === 0) {
      showProblem(this.main, "No runs in this time range. Extend it on the strip below or show all.");
    }
    if (isFirst) {
      this.figure.dataset.ready = "true";
    }
    this.placeAround();
  }

  // Elements around the panels follow the width of the panels, once per frame.
  placeSoon() {
    cancelAnimationFrame(this.placing);
    this.placing = requestAnimationFrame(() => this.placeAround());
  }

  placeAround() {
    const chart = this.charts[0]?.getChart();
    if (!chart?.chartArea || chart.chartArea.width <= 0) {
      return;
    }
    this.area = { left: chart.chartArea.left, right: chart.chartArea.right };
    drawStrip(this);
    this.brush?.place();
    placeChanges(this, chart);
    placePlanned(this, chart);
  }

  get readout() {
    return this.figure.querySelector(".chart-readout");
  }

  /** Select a mark, or none. panel: index of the panel whose values are shown. */
  select(mark, panel = 0) {
    this.mark = mark;
    this.drawAgain?.();
    this.joined?.point(mark?.at ?? null);
    if (mark === null) {
      this.tip.hide();
      return;
    }
    const { metric, unit, marks } = this.panels[panel];
    const hasNames = this.whole.lines.length > 1;
    const own = marks.filter((each) => each.line === mark.line);
    this.readout.textContent = describeMark(mark, { marks: own, metric, unit, zone: this.zone, hasNames });
    const chart = this.charts[panel].getChart();
    this.tip.show({
      title: formatSpan(mark, this.zone),
      lines: [...(hasNames ? [mark.line.name] : []), ...describeValue(mark, { metric, unit }), ...this.describeOtherPanels(mark, panel)],
      foot: mark.kind === "bucket" && mark.n > 1 ? "click or Enter: zoom in" : this.hasLinks ? "click or Enter: open run" : "",
      x: chart.scales.x.getPixelForValue(mark.at),
      top: this.boxes[panel].offsetTop,
    });
  }

  // The values of the mark in the other panels.
  describeOtherPanels(mark, panel) {
    return this.panels
      .filter((each, place) => place !== panel && mark.values[each.metric].value !== null)
      .map(({ metric, unit, label }) => `${label}: ${describeValue(mark, { metric, unit })[0]}`);
  }

  /** Open the run of a mark; zoom into a bucket of several runs. */
  open(mark) {
    if (mark.kind === "bucket" && mark.n > 1) {
      const room = Math.max(60_000, (mark.to - mark.from) * 0.5);
      this.zoom({ from: mark.from - room, to: mark.to + room });
    } else if (mark.runId !== null) {
      this.openRun(mark.runId);
    }
  }

  /** Open the page of a run; a shared study has no links. */
  openRun(runId) {
    if (this.hasLinks) {
      location.assign(`/runs/${runId}/`);
    }
  }

  get hasLinks() {
    return this.figure.dataset.url !== "";
  }

  markAt(pixel, panel) {
    const { scales } = this.charts[panel].getChart();
    return findMark(this.panels[panel], { ...pixel, scales });
  }

  formatTime(at) {
    return formatMoment(at, this.zone);
  }

  keepInAddress(changes) {
    if (this.figure.dataset.ownsAddress !== undefined) {
      keepInAddress(changes);
    }
  }

  show(selector, isShown) {
    const element = this.figure.querySelector(selector);
    if (element !== null) {
      element.hidden = !isShown;
    }
  }
}
