// A page that updates itself: while it is visible it is asked for again, and what differs is replaced. What the server
// sends is compared with what it sent before, not with the page: what a person or a script changed stays as it is.
import { getNewerPage } from "./api.js";
import { makeElement } from "./elements.js";

const PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 60_000;
// A page that takes long is asked for less often: one that is watched takes at most a twentieth of a core.
const PAUSES_PER_ANSWER = 20;
const TOKENS = "[name=csrfmiddlewaretoken]";
// Texts that time alone changes, and details: they are replaced, and are no news.
const QUIET = "time, progress, .muted, .sub, [data-ticks]";
const NAMES_MAXIMUM = 3;

// Node of the newest answer → node of the page.
const twins = new WeakMap();
const status = makeElement("p", { class: "live-status muted no-print", role: "status" });
let known = document.body.cloneNode(true);
let etag = '""';
let scripts = listScripts(document);
let updatedAt = Date.now();
let failures = 0;
let timer;
let isAsking = false;

function pair(one, live) {
  twins.set(one, live);
  one.childNodes.forEach((child, place) => pair(child, live.childNodes[place]));
}

// The fresh subtree is equal to the known one.
function carry(one, fresh) {
  twins.set(fresh, twins.get(one));
  one.childNodes.forEach((child, place) => carry(child, fresh.childNodes[place]));
}

// What only a new page can start: scripts of the server, and charts by their data.
function listScripts(page) {
  return [...page.querySelectorAll("script[src^='/'], script[type='application/json']")].map((script) => script.getAttribute("src") ?? script.textContent).join("\n");
}

function listChildren(parent) {
  return [...parent.childNodes].filter((node) =>
    node.nodeType === Node.TEXT_NODE ? node.data.trim() !== "" : node.nodeType === Node.ELEMENT_NODE && !node.matches("script, noscript, [data-message]"));
}

// Equal for two versions of one thing: a row by its link, a fact by its term.
function findKey(node) {
  const head = node.querySelector?.(":scope > :is(th, dt)") ?? (node.localName === "li" ? node : null);
  const name = head?.querySelector("a")?.getAttribute("href") ?? head?.textContent;
  return [node.nodeName, node.id || node.getAttribute?.("aria-labelledby") || name].join();
}

// Returns the known child of each fresh one that has one: first equal ones, then those of the same key.
function matchChildren(left, wanted) {
  const matches = new Map();
  for (const isSame of [(one, other) => one.isEqualNode(other), (one, other) => findKey(one) === findKey(other)]) {
    for (const child of wanted.filter((each) => !matches.has(each))) {
      const place = left.findIndex((each) => isSame(each, child));
      if (place !== -1) {
        matches.set(child, left.splice(place, 1)[0]);
      }
    }
  }
  return matches;
}

function updateNode(old, fresh, news) {
  if (old.isEqualNode(fresh)) {
    carry(old, fresh);
    return;
  }
  const live = twins.get(old);
  twins.set(fresh, live);
  if (fresh.nodeType === Node.TEXT_NODE) {
    live.data = fresh.data;
    news.add(live.parentElement);
    return;
  }
  for (const name of new Set([...old.getAttributeNames(), ...fresh.getAttributeNames()])) {
    if (!fresh.hasAttribute(name)) {
      live.removeAttribute(name);
    } else if (old.getAttribute(name) !== fresh.getAttribute(name)) {
      live.setAttribute(name, fresh.getAttribute(name));
    }
  }
  updateChildren(old, fresh, news);
}

function updateChildren(old, fresh, news) {
  const parent = twins.get(fresh);
  const left = listChildren(old);
  const wanted = listChildren(fresh);
  const matches = matchChildren(left, wanted);
  left.forEach((each) => twins.get(each).remove());
  let last = null;
  for (const child of wanted) {
    const match = matches.get(child);
    let live = match && twins.get(match);
    if (match) {
      updateNode(match, child, news);
    } else {
      live = document.importNode(child, true);
      pair(child, live);
      news.add(live.nodeType === Node.TEXT_NODE ? parent : live);
    }
    const isInPlace = match && (last === null || last.compareDocumentPosition(live) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (!isInPlace) {
      parent.insertBefore(live, last ? last.nextSibling : parent.firstChild);
    }
    if (!match && /^\s/.test(child.previousSibling?.data)) {
      live.before(" ");
    }
    // A script may have put another node in its place.
    last = live.parentNode === parent ? live : last;
  }
}

// Returns the words for what is new: "Results, Last runs"; the title if it is new.
function nameNews(news) {
  const heading = document.querySelector("h1");
  const names = news.map((each) => (each.closest("section")?.querySelector("h2, h3") ?? heading).textContent.trim());
  const found = news.some((each) => heading.contains(each)) ? [heading.textContent.trim()] : [...new Set(names)];
  const more = found.length > NAMES_MAXIMUM ? ` and ${found.length - NAMES_MAXIMUM} more` : "";
  return found.slice(0, NAMES_MAXIMUM).join(", ") + more;
}

function hasInput() {
  return [...document.querySelectorAll("main :is(textarea, input:not([type=hidden], [type=checkbox], [type=radio]))")].some(
    (field) => field.value !== field.defaultValue,
  );
}

function formatTime(at) {
  const { timeZone } = document.documentElement.dataset;
  return new Date(at).toLocaleTimeString("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
}

function show(page) {
  const focused = document.activeElement;
  const token = page.querySelector(TOKENS)?.value;
  page.querySelectorAll(TOKENS).forEach((field) => field.setAttribute("value", ""));
  const changed = new Set();
  updateNode(known, page.body, changed);
  known = page.body;
  document.title = page.title;
  document.querySelectorAll(TOKENS).forEach((field) => field.setAttribute("value", token));
  if (focused !== document.activeElement && focused.isConnected) {
    focused.focus({ preventScroll: true });
  }
  const news = [...changed].filter((each) => each.isConnected && !each.closest(QUIET)).map((each) => each.closest("tr, li, dl > div") ?? each);
  if (news.length > 0) {
    document.querySelectorAll(".is-new").forEach((each) => each.classList.remove("is-new"));
    news.forEach((each) => each.classList.add("is-new"));
    status.textContent = `Updated ${formatTime(updatedAt)}: ${nameNews(news)}`;
  }
}

async function ask() {
  clearTimeout(timer);
  timer = undefined;
  if (isAsking || document.hidden) {
    return;
  }
  isAsking = true;
  const began = performance.now();
  try {
    const newer = await getNewerPage(location.href, etag);
    updatedAt = Date.now();
    if (failures > 0) {
      status.textContent = "";
      failures = 0;
    }
    if (newer?.movedTo || (newer !== null && listScripts(newer.page) !== scripts)) {
      if (hasInput()) {
        status.textContent = "A newer version of this page is available: reload it once your input is saved.";
      } else if (newer.movedTo) {
        location.replace(newer.movedTo);
      } else {
        location.reload();
      }
      return;
    }
    if (newer !== null) {
      etag = newer.etag;
      show(newer.page);
      document.dispatchEvent(new Event("page-update"));
    }
  } catch (problem) {
    failures += 1;
    status.textContent = `Not updated since ${formatTime(updatedAt)}: ${problem.message}`;
    if (problem.isSignedOut) {
      return;
    }
  } finally {
    isAsking = false;
  }
  const pause = Math.max(PAUSE_MS, (performance.now() - began) * PAUSES_PER_ANSWER) * 2 ** failures;
  timer = setTimeout(ask, Math.min(pause, LONGEST_PAUSE_MS));
}

known.querySelectorAll(TOKENS).forEach((field) => field.setAttribute("value", ""));
pair(known, document.body);
document.body.append(status);
document.addEventListener("visibilitychange", ask);
// Once a person does something, the announcement is no longer in the way; what is wrong stays.
for (const name of ["pointerdown", "keydown", "wheel"]) {
  document.addEventListener(name, () => {
    if (failures === 0) {
      status.textContent = "";
    }
  });
}
timer = setTimeout(ask, PAUSE_MS);
