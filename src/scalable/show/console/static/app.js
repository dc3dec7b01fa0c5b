// Brings feed and panels together: keeps the latest sections, and draws what changed once per frame where it is seen.

import { Acting } from "./acting.js";
import { byId, choices, set, write } from "./dom.js";
import { ask, enter, Feed, SECTIONS } from "./feed.js";
import { Grid } from "./grid.js";
import { attention, figures, header, sweeps } from "./overview.js";
import { cost, plan } from "./money.js";
import { decisions, Pool } from "./pool.js";
import { Results } from "./results.js";
import { incidents, retries } from "./trouble.js";
import { Workers } from "./workers.js";
import { day } from "./words.js";

const LATEST = "";
const RUNS_EVERY_MS = 10_000; // new runs appear in the list by themselves
const TICK_MS = 1_000;

const state = { session: { read_only: true }, refused: "", at: 0 };
const feed = new Feed(heard, linked);
const acting = new Acting(feed, state);
const grid = new Grid();
const pool = new Pool();
const workers = new Workers(acting, state);
const results = new Results(acting, state);
acting.done = () => results.forget(); // what was marked or replayed changes verdicts

// Panel, the sections it is drawn from, and who draws it. A panel that is not seen is drawn when it comes into view.
const PANELS = [
  ["panel-figures", ["run", "sweeps", "workers", "cost", "trouble", "series"], () => figures(state)],
  ["panel-attention", ["trouble", "run", "session"], () => attention(state, acting)],
  ["panel-sweeps", ["sweeps", "run", "session"], () => sweeps(state, acting)],
  ["panel-grid", ["grid", "cells"], () => grid.render()],
  ["panel-cost", ["cost", "series"], () => cost(state)],
  ["panel-plan", ["plan"], () => plan(state)],
  ["panel-pool", ["series", "decisions"], () => pool.render(state)],
  ["panel-decisions", ["decisions"], () => decisions(state)],
  ["panel-workers", ["workers", "run", "session"], () => workers.render()],
  ["panel-results", ["sweeps", "results"], () => results.render()],
  ["panel-incidents", ["trouble", "session"], () => incidents(state, acting)],
  ["panel-retries", ["trouble"], () => retries(state)],
].map(([id, sections, draw]) => ({ node: byId(id), sections, draw, seen: true, changed: true }));

let frame = 0;
let headed = true;

function changed(section) {
  for (const panel of PANELS) if (panel.sections.includes(section)) panel.changed = true;
  headed ||= section === "run" || section === "session";
  frame ||= requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  if (headed) header(state);
  headed = false;
  for (const panel of PANELS) {
    if (!panel.changed || !panel.seen) continue;
    panel.changed = false;
    panel.draw();
  }
}

function heard(section, data) {
  if (section === "run" && state.run && data.run_id !== state.run.run_id) forget();
  if (section === "reset") {
    forget();
  } else if (section === "grid") {
    grid.take(data ?? []);
  } else if (section === "cells") {
    grid.patch(data);
  } else {
    state[section] = data;
    if (section === "run") state.at = performance.now();
    if (section === "session") write(byId("version"), `scalable ${data.version ?? ""}`);
  }
  changed(section);
}

/** Another run is shown from now on. */
function forget() {
  for (const name of SECTIONS) delete state[name]; // a run may have no plan, which is told as null
  grid.take([]);
  results.forget();
  for (const panel of PANELS) panel.changed = true;
}

function linked(to, why = "") {
  const node = byId("connection");
  write(node, to === "reconnecting" ? "reconnecting …" : to);
  set(node, "data-state", to);
  if (to !== "reconnecting") state.refused = why;
  header(state);
}

async function listRuns() {
  let runs;
  try {
    runs = await ask("/api/runs");
  } catch {
    return; // the connection says so already
  }
  const items = runs.map((one) => [one.run_id, `${one.project ?? one.run_id} · ${day(one.started)} · ${one.state}`]);
  choices(byId("runs"), [[LATEST, "Latest run"], ...items]);
  byId("runs").value = items.some(([id]) => id === feed.run) ? feed.run : LATEST;
  state.runs = runs.length;
  changed("run");
}

function choose(run) {
  history.replaceState(null, "", run ? `?run=${encodeURIComponent(run)}` : location.pathname);
  heard("reset", null);
  feed.open(run);
}

function themed() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const current = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  const told = () => {
    const other = current() === "dark" ? "light" : "dark";
    write(byId("theme"), other === "dark" ? "Dark" : "Light");
    set(byId("theme"), "aria-label", `Use the ${other} theme`);
    grid.redraw();
  };
  byId("theme").addEventListener("click", () => {
    const other = current() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = other;
    try {
      localStorage.setItem("scalable-theme", other);
    } catch {
      // Storage may be forbidden; the choice holds for this page then.
    }
    told();
  });
  dark.addEventListener("change", told);
  told();
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const panel = PANELS.find((one) => one.node === entry.target);
      panel.seen = entry.isIntersecting;
      if (panel.seen && panel.changed) changed("");
    }
  },
  { rootMargin: "200px" },
);
// What matters most is small and always drawn: a screen reader reads it wherever the page is scrolled to.
const ALWAYS = new Set(["panel-figures", "panel-attention", "panel-sweeps"]);
for (const panel of PANELS) if (!ALWAYS.has(panel.node.id)) seen.observe(panel.node);
for (const part of [grid, results, workers]) {
  const own = { "panel-grid": grid, "panel-results": results, "panel-workers": workers };
  const panel = PANELS.find((one) => own[one.node.id] === part);
  part.changed = () => {
    panel.changed = true;
    changed("");
  };
}

byId("runs").addEventListener("change", () => choose(byId("runs").value));
byId("pause").addEventListener("click", () => acting.pause());
byId("resume").addEventListener("click", () => acting.resume());
byId("kill-all").addEventListener("click", () => acting.killAll());
setInterval(() => header(state), TICK_MS);
setInterval(listRuns, RUNS_EVERY_MS);
themed();
await enter();
feed.open(new URLSearchParams(location.search).get("run") ?? LATEST);
listRuns();
