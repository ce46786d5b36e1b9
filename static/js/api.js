// The only fetch. Every failure becomes an ApiProblem whose message the page can show as it is.

/** A request that gave no numbers; the message says what happened and what to do. */
export class ApiProblem extends Error {
  constructor(message, { isSignedOut = false } = {}) {
    super(message);
    this.name = "ApiProblem";
    this.isSignedOut = isSignedOut;
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

async function request(url, signal) {
  try {
    return await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin", signal });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new ApiProblem("The server cannot be reached. Is it running, and are you online?");
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
    return new ApiProblem("You are signed out. Sign in, then come back to this page.", { isSignedOut: true });
  }
  if (response.status === 503 || response.status === 429) {
    return new ApiProblem("The server is busy or starting up. Try again in a few seconds.");
  }
  const problem = await response.json().catch(() => ({}));
  const words = problem.detail ?? problem.title ?? "The server gave no reason.";
  return new ApiProblem(`The numbers did not come (status ${response.status}): ${words}`);
}
