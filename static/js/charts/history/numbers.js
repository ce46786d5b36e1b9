// What a history is drawn from: the whole of it, and of one that comes as buckets the finer numbers of the part in view.
import { getJson } from "../../site/api.js";
import { readHistory } from "./history.js";
import { writeMoment } from "../shared/zoom.js";

/** The numbers of one figure: from the page where it brings them along, else from the public API. */
export class HistoryNumbers {
  constructor(figure) {
    this.url = figure.dataset.url;
    this.document = figure.dataset.document;
    const harmless = figure.dataset.harmless.split(" ");
    this.isDoubtful = (badges) => badges.some((code) => !harmless.includes(code));
    this.detail = null;
  }

  // A shared study brings its numbers along: who reads it may not ask for them.
  get isEmbedded() {
    return this.document !== undefined;
  }

  /** What is there of the part in view, as fine as it is. */
  get shown() {
    return this.detail ?? this.whole;
  }

  /** Read the whole, and the part from … to (moments, "" is open) where one is wanted. Throws ApiProblem. */
  async load({ from, to }) {
    if (this.isEmbedded) {
      this.whole = this.read(JSON.parse(document.getElementById(this.document).textContent));
      return;
    }
    const addresses = [this.url, ...(from || to ? [this.makeAddress({ from, to })] : [])];
    const [whole, part] = await Promise.all(addresses.map((address) => getJson(address)));
    this.whole = this.read(whole);
    // Of a whole that comes run by run the part would have nothing that is not there, and hide the rest of it.
    this.detail = part !== undefined && this.whole.isThinned ? this.read(part) : null;
  }

  /** Let the coarse numbers stand in until the finer ones of another part come. */
  coarsen() {
    if (this.whole.isThinned) {
      this.detail = null;
    }
  }

  /** Ask for the finer numbers of a part (null: all); says whether there are any. Throws ApiProblem, AbortError. */
  async refine(span) {
    this.asking?.abort();
    if (span === null || !this.whole.isThinned || this.isEmbedded) {
      return false;
    }
    this.asking = new AbortController();
    this.detail = this.read(await getJson(this.makeAddress(span), { signal: this.asking.signal }));
    return true;
  }

  read(answer) {
    return readHistory(answer, { isDoubtful: this.isDoubtful });
  }

  makeAddress({ from, to }) {
    const span = new URLSearchParams({ ...(from && { from }), ...(to && { to }) });
    return `${this.url}&${span}`;
  }
}

/** Write a view as the API reads it, in whole seconds around it. */
export function writeSpan({ from, to }) {
  return { from: writeMoment(Math.floor(from / 1000) * 1000), to: writeMoment(Math.ceil((to + 1) / 1000) * 1000) };
}
