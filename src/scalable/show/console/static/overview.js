// The header, the key figures, what needs attention, and the sweeps with their progress.

import { byId, each, make, set, write } from "./dom.js";
import { incidentCount } from "./trouble.js";
import { count, day, length, LOADING, money, plural, share, UNKNOWN } from "./words.js";

const TONES = { running: "good", ok: "good", finished: "good", complete: "good", failed: "bad", incomplete: "bad" };

const SILENT_S = 30; // a session writes every ten seconds

export const isRunning = (state) => Boolean(state.run) && state.run.state === "running";

export function header(state) {
  const run = state.run;
  const locked = state.session.version && state.session.read_only
    ? "Read-only: this console was started with --read-only, so it cannot act."
    : "";
  const running = isRunning(state);
  write(byId("state"), run ? run.state : state.refused ? "no run" : "loading …");
  set(byId("state"), "data-tone", run?.run_id ? (TONES[run.state] ?? "warn") : "");
  const why = run?.paused ?? "";
  byId("paused").hidden = !why;
  write(byId("paused"), !why || why.startsWith("paused") ? why : `paused: ${why}`);
  set(byId("paused"), "title", why); // the badge may be cut off
  const silent = running && run.silent_s > SILENT_S ? `last sign ${length(Math.round(run.silent_s))} ago` : "";
  const stopped = running && run.stopped ? `process ${run.stopped} is stopped: kill -CONT ${run.stopped}` : "";
  byId("silent").hidden = !silent && !stopped;
  write(byId("silent"), stopped || silent);
  write(byId("locked"), locked);
  byId("locked").hidden = !locked;
  for (const [id, there] of [
    ["pause", !why],
    ["resume", Boolean(why)],
    ["kill-all", true],
  ]) {
    const button = byId(id);
    button.hidden = !there || !running;
    able(button, locked);
  }
  const nothing = run?.run_id === "" ? "Nothing has run here yet. The first run appears by itself." : "";
  write(byId("empty"), state.refused || nothing);
  byId("empty").hidden = !state.refused && !nothing;
  set(byId("main"), "data-nothing", !run?.run_id); // there is nothing to say of it
  const title = run?.run_id ? `${run.project ?? run.run_id} · ${run.state} · scalable` : "scalable";
  if (document.title !== title) document.title = title;
  const [latest] = byId("runs").options;
  const shown = run?.run_id && byId("runs").selectedIndex === 0;
  if (latest) write(latest, shown ? `Latest: ${run.project ?? run.run_id} · ${day(run.started)}` : "Latest run");
  write(byId("title"), run?.run_id ? `Run ${run.run_id}` : "Console");
  clockFigures(state);
}

/** A button that cannot be used says why; it stays reachable, so that the reason can be read. */
export function able(button, reason) {
  set(button, "aria-disabled", reason ? "true" : null);
  set(button, "title", reason || null);
}

const FIGURES = ["rows", "elapsed", "left", "workers", "waiting", "spent", "trouble"];
const NAMES = {
  rows: "Rows",
  elapsed: "Elapsed",
  left: "Time left",
  workers: "Workers",
  waiting: "Waiting",
  spent: "Spent",
  trouble: "Trouble",
};

export function figures(state) {
  const list = byId("figures");
  each(
    list,
    FIGURES,
    (key) => key,
    (key) =>
      make(
        "div",
        { class: "figure" },
        make("dt", {}, NAMES[key]),
        make("dd", { id: `figure-${key}` }),
        make("dd", { id: `more-${key}`, class: "more" }),
      ),
  );
  const all = state.sweeps ?? [];
  const sum = (name) => all.reduce((total, one) => total + (one[name] || 0), 0);
  const done = sum("there") + sum("rows") - sum("failed");
  const workers = state.workers ?? [];
  const busy = workers.filter((one) => one.state === "busy").length;
  const here = workers.filter((one) => one.state !== "starting" && one.state !== "lost").length;
  const series = state.series ?? {};
  const trouble = state.trouble ?? {};
  const alerts = trouble.alerts?.length ?? 0;
  const failures = trouble.failure_count ?? 0;
  const told = [alerts && plural(alerts, "alert"), failures && plural(failures, "failure")].filter(Boolean);
  const rows = `of ${count(sum("expected"))}${sum("failed") ? `, ${count(sum("failed"))} failed` : ""}`;
  fill("rows", state.sweeps, () => [all.length ? count(done) : UNKNOWN, all.length ? rows : "no sweep"]);
  fill("workers", state.workers, () => [count(here), `${count(busy)} busy`]);
  fill("waiting", state.series, () => [
    count(last(series.waiting) ?? 0),
    `${count(last(series.running) ?? 0)} running`,
  ]);
  fill("spent", state.cost, ({ spent, budget }) => [money(spent), budget ? `of ${money(budget)}` : "no budget set"]);
  fill("trouble", state.trouble, () => [
    told.join(", ") || "none",
    `${incidentCount(trouble)}, ${plural(trouble.retries?.count ?? 0, "retry", "retries")}`,
  ]);
  set(byId("figure-trouble"), "data-tone", told.length ? "bad" : "");
  clockFigures(state);
}

/** Figures that move by themselves between two messages. */
function clockFigures(state) {
  const run = state.run;
  if (!byId("figure-elapsed")) return;
  const since = isRunning(state) ? (performance.now() - state.at) / 1000 : 0;
  const known = typeof run?.elapsed_s === "number";
  put(
    "elapsed",
    known ? length(Math.round(run.elapsed_s + since)) : UNKNOWN,
    run?.target ? `${run.target}${run.provider && run.provider !== run.target ? `, ${run.provider}` : ""}` : "",
  );
  const left = typeof run?.left_s === "number" ? Math.max(0, Math.round(run.left_s - since)) : null;
  put(
    "left",
    left === null ? UNKNOWN : length(left),
    typeof run?.rate_per_min === "number" ? `${run.rate_per_min.toFixed(run.rate_per_min < 10 ? 1 : 0)} tasks/min` : "",
  );
}

/** A figure of a section; one that has not come yet is not known. */
function fill(key, section, told) {
  put(key, ...(section ? told(section) : [UNKNOWN, LOADING]));
}

function put(key, text, more) {
  write(byId(`figure-${key}`), text);
  write(byId(`more-${key}`), more);
}

export function attention(state, acting) {
  const trouble = state.trouble ?? {};
  const found = [
    ...(trouble.alerts ?? []).map((one) => ({
      ...one,
      code: one.alert,
      tone: one.severity === "page" ? "bad" : "warn",
      word: one.severity ?? "alert",
    })),
    ...(trouble.findings ?? []).map((one) => ({ ...one, tone: "info", word: "finding" })),
  ];
  if (trouble.dead_letters) {
    const text = `The database refused ${plural(trouble.dead_letters, "dead letter")}: what is in them is not stored.`;
    found.push({
      code: "dead letters",
      text,
      remedy: "Once the cause is gone, replay stores them.",
      tone: "warn",
      word: "store",
      action: "replay",
    });
  }
  byId("panel-attention").hidden = !found.length;
  each(
    byId("attention"),
    found,
    (one) => `${one.word} ${one.code} ${JSON.stringify(one.labels ?? {})} ${one.about ?? one.t ?? one.since ?? ""}`,
    (one) => {
      const head = make(
        "p",
        { class: "card-head" },
        make("span", { class: "badge", "data-tone": one.tone }, one.word),
        make("strong", {}, one.code ?? ""),
      );
      const replay = () => acting.replay();
      const button = one.action ? make("button", { type: "button", onclick: replay }, "Replay …") : null;
      const parts = { text: make("p"), remedy: make("p", { class: "remedy" }), button };
      const node = make("li", { class: "card", "data-tone": one.tone }, head, parts.text, parts.remedy, button);
      node.parts = parts;
      return node;
    },
    ({ parts: { text, remedy, button } }, one) => {
      write(text, one.text);
      write(remedy, one.remedy);
      if (button) able(button, acting.locked());
    },
  );
}

export function sweeps(state, acting) {
  const all = state.sweeps ?? [];
  const list = byId("sweeps");
  set(list, "data-empty", all.length ? null : state.sweeps ? "no sweep in this run" : LOADING);
  each(
    list,
    all,
    (one) => one.name,
    (one) => sweep(one, acting),
    ({ parts }, one) => {
      const done = finished(one);
      const rest = Math.max(0, (one.expected || 0) - done - (one.failed || 0));
      const shares = [
        ["there", one.there],
        ["done", (one.rows || 0) - (one.failed || 0)],
        ["failed", one.failed],
        ["rest", rest],
      ];
      for (const [name, value] of shares) parts.bars[name].style.flexGrow = String(value || 0);
      set(parts.bar, "aria-valuemax", one.expected || 1);
      set(parts.bar, "aria-valuenow", done);
      set(parts.bar, "aria-valuetext", `${done} of ${one.expected} rows, ${one.failed || 0} failed`);
      write(parts.percent, one.expected ? share(Math.floor((done / one.expected) * 100) / 100) : UNKNOWN);
      write(parts.status, one.status);
      set(parts.status, "data-tone", TONES[one.status] ?? "warn");
      write(parts.facts, facts(one));
      write(parts.reason, one.reason);
      const running = isRunning(state) && one.status === "running";
      parts.kill.hidden = !running;
      able(parts.kill, acting.locked());
      able(parts.mark, acting.locked());
    },
  );
}

function sweep(one, acting) {
  const bars = Object.fromEntries(
    ["there", "done", "failed", "rest"].map((name) => [name, make("span", { class: `part ${name}` })]),
  );
  const parts = {
    bars,
    bar: make(
      "div",
      { class: "progress", role: "progressbar", "aria-label": `Progress of ${one.name}`, "aria-valuemin": "0" },
      Object.values(bars),
    ),
    percent: make("span", { class: "percent number" }),
    status: make("span", { class: "badge" }),
    facts: make("p", { class: "note number" }),
    reason: make("p", { class: "reason" }),
    kill: make(
      "button",
      {
        type: "button",
        class: "small danger",
        "aria-label": `Kill sweep ${one.name}`,
        onclick: () => acting.killSweep(one.name),
      },
      "Kill …",
    ),
    mark: make(
      "button",
      {
        type: "button",
        class: "small",
        "aria-label": `Mark results of ${one.name} failed`,
        onclick: () => acting.markFailed(one.name),
      },
      "Mark failed …",
    ),
  };
  const head = make(
    "div",
    { class: "sweep-head" },
    make("h3", {}, one.name),
    parts.status,
    parts.percent,
    make("div", { class: "buttons" }, parts.mark, parts.kill),
  );
  const node = make("li", { class: "sweep" }, head, parts.bar, parts.facts, parts.reason);
  node.parts = parts;
  return node;
}

/** Rows that count: of those that came, some may have failed. */
const finished = (one) => (one.there || 0) + (one.rows || 0) - (one.failed || 0);

function facts(one) {
  return [
    `${count(finished(one))} of ${count(one.expected)} rows`,
    one.there ? `${count(one.there)} there before` : "",
    one.failed ? `${count(one.failed)} failed` : "",
    one.units ? `${count(one.units_done)} of ${plural(one.units, "job")}` : "",
    typeof one.left_s === "number" && one.status === "running" ? `${length(one.left_s)} left` : "",
    one.tag ? `on ${one.tag}` : "",
  ]
    .filter(Boolean)
    .join("  ·  ");
}

const last = (list) => (list?.length ? list[list.length - 1] : null);
