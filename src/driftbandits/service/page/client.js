// The service as this page calls it: read-only requests, and what may go wrong with them.

const TIMEOUT_MS = 15000;
const STORED = "driftbandits-key"; // of sessionStorage, which lives as long as the tab

export class Away extends Error {}

export class Refused extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryMs = Number(retryAfter) * 1000 || 0;
  }
}

export const key = {
  get: () => sessionStorage.getItem(STORED),
  set: (token) => sessionStorage.setItem(STORED, token),
  forget: () => sessionStorage.removeItem(STORED),
};

/** The JSON at a path. */
export async function get(path) {
  const token = key.get();
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  let answer, body;
  try {
    answer = await fetch(path, {
      headers, cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    body = await answer.json();
  } catch {
    throw new Away("the server does not answer");
  }
  if (answer.ok) return body;
  const told = body?.error?.message ?? `status ${answer.status}`;
  throw new Refused(answer.status, told, answer.headers.get("retry-after"));
}
