// The only fetch, and the only XMLHttpRequest: fetch tells nothing of how far a body is sent.
// Every failure becomes an ApiProblem whose message the page can show as it is.

const AWAY = "The server cannot be reached. Is it running, and are you online?";
const SIGNED_OUT = "You are signed out. Sign in, then come back to this page.";
const BUSY = "The server is busy or starting up. Try again in a few seconds.";
const NO_REASON = "The server gave no reason.";

/** A request that gave no numbers; the message says what happened and what to do. */
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
  throw await describeRefusal(response);
}

/** Get a page of ours as a document that is not shown: its scripts do not run. */
export async function getPage(url, { signal } = {}) {
  const response = await request(url, signal);
  if (!response.ok || response.redirected) {
    throw await describeRefusal(response);
  }
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/**
 * Post a form to a page of ours and return its JSON. onProgress: told the share that is sent, 0 to 1.
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
    return new ApiProblem(`The server gave no answer that this page understands (status ${sender.status}). Try again.`);
  }
}

async function request(url, signal) {
  try {
    return await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin", signal });
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
    throw new ApiProblem("The answer broke off half way. Try again.");
  }
}

async function describeRefusal(response) {
  if (response.status === 401 || response.status === 403) {
    return new ApiProblem(SIGNED_OUT, { isSignedOut: true });
  }
  const wait = Number(response.headers.get("Retry-After"));
  if (response.status === 429 && wait > 0) {
    return new ApiProblem(`Your address asked for too much at once. Try again in ${wait} s.`);
  }
  if (response.status === 503 || response.status === 429) {
    return new ApiProblem(BUSY);
  }
  return new ApiProblem(`The numbers did not come (status ${response.status}): ${await readReason(response)}`);
}

// A problem document of the API, or a page of ours that says what is wrong.
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
