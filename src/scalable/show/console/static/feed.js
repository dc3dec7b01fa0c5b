// What the server says: one stream of sections, and questions beside it. Keeps the latest of every section only.

export const SECTIONS = ["run", "sweeps", "workers", "series", "decisions", "cost", "trouble", "plan"];
const AGAIN_MS = 2_000;
const HIDDEN_MS = 5_000; // browsers allow six connections to a server: a tab nobody looks at gives its one back

/** `heard(section, data)` for every section that came; `linked(state, why)` with live, reconnecting or refused. */
export class Feed {
  constructor(heard, linked) {
    this.heard = heard;
    this.linked = linked;
    this.session = { token: "", read_only: true };
    this.turn = 0; // of opening: only the latest one listens
    document.addEventListener("visibilitychange", () => this.looked());
  }

  looked() {
    clearTimeout(this.asleep);
    if (document.hidden) this.asleep = setTimeout(() => this.close(), HIDDEN_MS);
    else if (!this.source) this.open(this.run);
  }

  async open(run) {
    this.run = run;
    this.close();
    const turn = this.turn;
    let session;
    try {
      session = await ask("/api/session");
    } catch (error) {
      if (turn !== this.turn) return;
      if (error.status) return this.linked("refused", error.message);
      this.linked("reconnecting");
      return this.later();
    }
    if (turn !== this.turn) return;
    this.session = session;
    this.heard("session", this.session);
    this.listen();
  }

  listen() {
    const query = this.run ? `?run=${encodeURIComponent(this.run)}` : "";
    const source = new EventSource(`/api/stream${query}`);
    this.source = source;
    source.onopen = () => this.linked("live");
    source.onerror = () => {
      if (source !== this.source) return;
      this.linked("reconnecting");
      if (source.readyState === EventSource.CLOSED) this.explain(source.url);
    };
    source.addEventListener("reset", () => this.heard("reset", null));
    for (const name of [...SECTIONS, "grid", "cells"]) {
      source.addEventListener(name, (event) => this.heard(name, JSON.parse(event.data)));
    }
  }

  /** A stream that is refused does not say why: the same question does. It is asked for again, for that may change. */
  async explain(address) {
    this.later();
    const turn = this.turn;
    try {
      await ask(address, { signal: AbortSignal.timeout(AGAIN_MS / 2) });
    } catch (error) {
      if (error.status && turn === this.turn) this.linked("refused", error.message);
    }
  }

  later() {
    this.close();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(this.run), AGAIN_MS);
  }

  close() {
    this.turn += 1;
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  async act(request) {
    const headers = { "Content-Type": "application/json", "X-Scalable-Token": this.session.token };
    return ask("/api/action", { method: "POST", headers, body: JSON.stringify(request) });
  }
}

/** The answer as data; an error has the server's own sentence. */
export async function ask(address, options = {}) {
  const response = await fetch(address, { credentials: "same-origin", cache: "no-store", ...options });
  const found = await response.json().catch(() => ({}));
  if (response.ok) return found;
  const error = new Error(found.error || `the console answered ${response.status}`);
  error.status = response.status;
  throw error;
}
