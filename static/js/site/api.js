// The only fetch, and the only XMLHttpRequest: fetch does not report upload progress.
// Every failure becomes an ApiProblem whose message can be shown on the page.

const AWAY = "The server cannot be reached. Check your connection, then try again.";
const SIGNED_OUT = "You are signed out. Sign in, then reload this page.";
const BUSY = "The server is busy or starting up. Try again in a few seconds.";
const NO_REASON = "no reason given";

/** A failed request; the message names the problem and what to do. */
export class ApiProblem extends Error {
  constructor(message, { isSignedOut = false, code = "" } = {}) {
    super(message);
    this.name = "ApiProblem";
    this.isSignedOut = isSignedOut;
    this.code = code;
  }
}

/** Get a JSON document of the public API. */
export async function getJson(url, { signal } = {}) {
  const response = await request(url, signal);
  if (response.ok) {
    return readJson(response);
  }
  throw await describeFailure(response);
}

/** Get a page of this server as a document whose scripts do not run. */
export async function getPage(url, { signal, headers } = {}) {
  return parsePage(await request(url, signal, { headers }));
}

/** Get a page unless it is still the one that has this ETag: {page, etag}, {movedTo} after a rename, or null. */
export async function getNewerPage(url, etag) {
  const response = await request(url, undefined, { headers: { "If-None-Match": etag } });
  if (response.ok && response.redirected && !response.url.includes("/sign-in/")) {
    return { movedTo: response.url };
  }
  return response.status === 304 ? null : { page: await parsePage(response), etag: response.headers.get("ETag") };
}

async function parsePage(response) {
  if (!response.ok || response.redirected) {
    throw await describeFailure(response);
  }
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/**
 * Post a form and return the JSON response. onProgress: called with the share sent, 0 to 1.
 * signal: aborts; the promise is rejected with an AbortError then.
 */
export function postForm(url, form, { onProgress, signal } = {}) {
  return new Promise((resolve, reject) => {
    const sender = new XMLHttpRequest();
    sender.open("POST", url);
    sender.setRequestHeader("Accept", "application/json");
    sender.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) {
        onProgress?.(event.loaded / event.total);
      }
    });
    sender.addEventListener("load", () => {
      const answer = readAnswer(sender);
      if (answer instanceof ApiProblem) {
        reject(answer);
      } else {
        resolve(answer);
      }
    });
    sender.addEventListener("error", () => reject(new ApiProblem(AWAY)));
    sender.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal?.addEventListener("abort", () => sender.abort());
    sender.send(form);
  });
}

function readAnswer(sender) {
  if ([401, 403].includes(sender.status) || sender.responseURL.includes("/sign-in/")) {
    return new ApiProblem(SIGNED_OUT, { isSignedOut: true });
  }
  if (sender.status === 503 || sender.status === 429) {
    return new ApiProblem(BUSY);
  }
  try {
    const answer = JSON.parse(sender.responseText);
    if (sender.status < 300) {
      return answer;
    }
    return new ApiProblem(answer.detail ?? answer.title ?? NO_REASON, { code: answer.code ?? "" });
  } catch {
    return new ApiProblem(`Unexpected response (status ${sender.status}). Try again.`);
  }
}

/** Post a JSON document to the public API as the signed-in user; csrfToken: of a form of the page. */
export async function postJson(url, body, { csrfToken }) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": csrfToken };
  const response = await request(url, undefined, { method: "POST", headers, body: JSON.stringify(body) });
  if (response.ok) {
    return readJson(response);
  }
  throw await describeFailure(response);
}

async function request(url, signal, { headers, ...options } = {}) {
  try {
    return await fetch(url, { ...options, headers: { Accept: "application/json", ...headers }, credentials: "same-origin", signal });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new ApiProblem(AWAY);
  }
}

async function readJson(response) {
  try {
    return await response.json();
  } catch {
    throw new ApiProblem("The response is incomplete. Try again.");
  }
}

async function describeFailure(response) {
  if (response.status === 401 || response.status === 403 || response.url.includes("/sign-in/")) {
    return new ApiProblem(SIGNED_OUT, { isSignedOut: true });
  }
  const wait = Number(response.headers.get("Retry-After"));
  if (response.status === 429 && wait > 0) {
    return new ApiProblem(`Too many requests. Try again in ${wait} s.`);
  }
  if (response.status === 503 || response.status === 429) {
    return new ApiProblem(BUSY);
  }
  return new ApiProblem(`Request failed (status ${response.status}): ${await readReason(response)}`);
}

// The reason in a problem document or an error page.
async function readReason(response) {
  const text = await response.text().catch(() => "");
  if (response.headers.get("Content-Type")?.startsWith("text/html")) {
    const page = new DOMParser().parseFromString(text, "text/html");
    return page.querySelector("[data-reason]")?.textContent.trim() || NO_REASON;
  }
  try {
    const problem = JSON.parse(text);
    return problem.detail ?? problem.title ?? NO_REASON;
  } catch {
    return NO_REASON;
  }
}
