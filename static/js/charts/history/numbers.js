// Data of a history chart: the whole history and, if downsampled, the visible range at higher resolution.
import { getJson } from "../../site/api.js";
import { readHistory } from "./history.js";
import { writeMoment } from "../shared/zoom.js";

/** Data of one figure: embedded in the page, or from the API. */
export class HistoryNumbers {
  constructor(figure) {
    this.url = figure.dataset.url;
    this.document = figure.dataset.document;
    this.part = figure.dataset.detail;
    const harmless = figure.dataset.harmless.split(" ");
    this.isDoubtful = (badges) => badges.some((code) => !harmless.includes(code));
    this.detail = null;
  }

  /** The best available data for the visible range. */
  get shown() {
    return this.detail ?? this.whole;
  }

  /** Load the whole history and the range from … to (times, "" is open), if given. Throws ApiProblem. */
  async load({ from, to }) {
    if (this.document !== undefined) {
      this.whole = this.readEmbedded(this.document);
      this.detail = this.part === undefined ? null : this.readEmbedded(this.part);
      return;
    }
    const addresses = [this.url, ...(from || to ? [this.makeAddress({ from, to })] : [])];
    const [whole, part] = await Promise.all(addresses.map((address) => getJson(address)));
    this.whole = this.read(whole);
    // Without downsampling, the range is part of the whole already.
    this.detail = part !== undefined && this.whole.isThinned ? this.read(part) : null;
  }

  /** Use the downsampled data until the data of another range is loaded. */
  coarsen() {
    if (this.whole.isThinned) {
      this.detail = null;
    }
  }

  /** Load a range (null: all) at higher resolution; returns whether there is any. Throws ApiProblem, AbortError. */
  async refine(span) {
    this.asking?.abort();
    // Readers of a shared study have no API access.
    if (span === null || !this.whole.isThinned || this.url === "") {
      return false;
    }
    this.asking = new AbortController();
    this.detail = this.read(await getJson(this.makeAddress(span), { signal: this.asking.signal }));
    return true;
  }

  readEmbedded(id) {
    return this.read(JSON.parse(document.getElementById(id).textContent));
  }

  read(answer) {
    return readHistory(answer, { isDoubtful: this.isDoubtful });
  }

  makeAddress({ from, to }) {
    const span = new URLSearchParams({ ...(from && { from }), ...(to && { to }) });
    return `${this.url}&${span}`;
  }
}

/** Format a view for the API, rounded outward to seconds. */
export function writeSpan({ from, to }) {
  return { from: writeMoment(Math.floor(from / 1000) * 1000), to: writeMoment(Math.ceil((to + 1) / 1000) * 1000) };
}
