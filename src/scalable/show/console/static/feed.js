// What the server says: one stream of sections, and questions beside it. Keeps the latest of every section only.

export const SECTIONS = ["run", "sweeps", "workers", "series", "decisions", "cost", "trouble", "plan"];
const AGAIN_MS = 2_000;
const LOCKED = 403;
const TOKEN = "#token=";
const KEPT = "scalable-token"; // in the storage of this tab, which no other port and no other tab can read
const HIDDEN_MS = 5_000; // browsers allow six connections to a server: a tab nobody looks at gives its one back

/** `heard(section, data)` for every section that came; `linked(state, why)` with live, reconnecting or refused. */
export class Feed {
  constructor(heard, linked) {
    this.heard = heard;
    this.linked = linked;
    document.addEventListener("visibilitychange", () => this.looked());
  }

  looked() {
    clearTimeout(this.asleep);
    if (document.hidden) this.asleep = setTimeout(() => this.close(), HIDDEN_MS);
    else if (!this.stream) this.open(this.run);
  }

  async open(run) {
    this.run = run;
    this.close();
    const stream = new AbortController();
    this.stream = stream;
    const query = run ? `?run=${encodeURIComponent(run)}` : "";
    try {
      const session = await ask("/api/session", { signal: stream.signal });
      this.heard("session", session);
      const response = await request(`/api/stream${query}`, { signal: stream.signal });
      this.linked("live");
      await events(response.body, (name, data) => this.heard(name, JSON.parse(data)));
      this.linked("reconnecting"); // the console ended
    } catch (error) {
      if (stream.signal.aborted) return;
      this.linked(error.status ? "refused" : "reconnecting", error.message);
      if (error.status === LOCKED) return; // only a new address changes that
    }
    if (!stream.signal.aborted) this.later();
  }

  later() {
    this.close();
    this.timer = setTimeout(() => this.open(this.run), AGAIN_MS);
  }

  close() {
    clearTimeout(this.timer);
    this.stream?.abort();
    this.stream = null;
  }

  async act(action) {
    const headers = { "Content-Type": "application/json" };
    return ask("/api/action", { method: "POST", headers, body: JSON.stringify(action) });
  }
}

/** Exchanges the token in the address, which is good once, for one that this tab keeps; the address forgets it. */
export async function enter() {
  addEventListener("hashchange", () => location.hash.startsWith(TOKEN) && location.reload()); // pasted into this tab
  if (!location.hash.startsWith(TOKEN)) return;
  const body = location.hash.slice(TOKEN.length);
  history.replaceState(null, "", location.pathname + location.search);
  try {
    sessionStorage.setItem(KEPT, (await ask("/api/enter", { method: "POST", body })).token);
  } catch {
    // A tab that was let in before stays in; any other is told when it asks.
  }
}

/** The answer as data; an error has the server's own sentence. */
export async function ask(address, options = {}) {
  return (await request(address, options)).json();
}

async function request(address, { headers = {}, ...options } = {}) {
  const own = { ...headers, "X-Scalable-Token": sessionStorage.getItem(KEPT) ?? "" };
  const response = await fetch(address, { credentials: "omit", cache: "no-store", ...options, headers: own });
  if (response.ok) return response;
  const found = await response.json().catch(() => ({}));
  const error = new Error(found.error || `the console answered ${response.status}`);
  error.status = response.status;
  throw error;
}

/** Reads server-sent events to their end. `EventSource` would, but it sends no headers. */
async function events(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = /^event: ([^\n]*)\ndata: ([^\n]*)$/.exec(block) ?? [];
      if (name) queueMicrotask(() => heard(name, data)); // an error of whoever draws it is no end of the stream
    }
  }
}
