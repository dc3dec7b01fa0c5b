// What a run costs beside its plan and budget, and what was planned beside what came.

import { byId, each, make, set, svg, write } from "./dom.js";
import { bytes, count, figure, length, LOADING, money, share } from "./words.js";

const TICKS = { Planned: "plan", "May be spent": "limit" }; // on the bar
const RETRIES = "Retries"; // none is ever planned, so any is worth a colour
const amount = (value) => (value ? Number(value.amount) : null);

export function cost(state) {
  const root = byId("cost");
  const told = state.cost ?? {};
  const [spent, planned, budget] = [told.spent, told.planned, told.budget].map(amount);
  const parts = (root.parts ??= build(root));
  write(parts.spent, told.spent ? money(told.spent) : "");
  const rate = told.per_hour ? `${money(told.per_hour)} an hour now` : "";
  const nothing = state.cost ? "Nothing is paid for so far, or no price is known." : LOADING;
  write(parts.rate, told.spent ? rate : nothing);
  const whole = Math.max(spent ?? 0, planned ?? 0, budget ?? 0);
  parts.gauge.hidden = !whole;
  place(parts.fill, "width", spent, whole);
  place(parts.plan, "left", planned, whole);
  place(parts.limit, "left", budget, whole);
  set(
    parts.fill,
    "data-tone",
    budget !== null && spent > budget ? "bad" : planned !== null && spent > planned ? "warn" : "",
  );
  const rows = [
    [
      "Planned",
      planned === null
        ? ""
        : `${money(told.planned)}${spent !== null && planned > 0 ? ` (${share(spent / planned)} of it spent)` : ""}`,
    ],
    ["May be spent", budget === null ? "" : money(told.budget)],
    ["Left of budget", told.budget_left ? money(told.budget_left) : ""],
    ...allocation(told.hours),
  ].filter(([, text]) => text);
  each(
    parts.facts,
    rows,
    ([name]) => name,
    ([name]) => make("div", {}, make("dt", { "data-tick": TICKS[name] }, name), make("dd")),
    (node, [, text]) => write(node.lastChild, text),
  );
  spark(parts.spark, state.series);
}

function allocation(hours) {
  if (!hours) return [];
  const unit = hours.budget?.unit ?? "core-hours";
  const left = hours.budget ? `${figure(hours.left.amount)} of ${figure(hours.budget.amount)} ${unit}` : "";
  return [
    ["Used", `${figure(hours.used[unit])} ${unit}`],
    ["Left of allocation", left],
  ];
}

function build(root) {
  const parts = {
    spent: make("p", { class: "amount number" }),
    rate: make("p", { class: "note number" }),
    fill: make("span", { class: "fill" }),
    plan: make("span", { class: "tick", title: "planned" }),
    limit: make("span", { class: "tick limit", title: "may be spent" }),
    facts: make("dl", { class: "facts" }),
  };
  parts.gauge = make("div", { class: "gauge", "aria-hidden": "true" }, parts.fill, parts.plan, parts.limit);
  const box = {
    class: "spark",
    viewBox: "0 0 100 30",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": "Money spent over time",
  };
  parts.spark = svg("svg", box, svg("path", { class: "area" }), svg("path", { class: "line" }));
  root.replaceChildren(parts.spent, parts.rate, parts.gauge, parts.spark, parts.facts);
  return parts;
}

function place(node, side, value, whole) {
  node.hidden = value === null || !whole;
  node.style[side] = `${Math.min(100, ((value ?? 0) / (whole || 1)) * 100)}%`;
}

function spark(node, series) {
  const points = (series?.cost ?? []).map((value, at) => [series.t[at], value]).filter(([, value]) => value !== null);
  set(node, "hidden", points.length < 2 || !points.at(-1)[1]);
  if (points.length < 2) return;
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const most = Math.max(...points.map(([, value]) => value)) || 1;
  const line = points
    .map(
      ([t, value]) =>
        `${(((t - first) / (last - first || 1)) * 100).toFixed(2)} ${(29 - (value / most) * 28).toFixed(2)}`,
    )
    .join("L");
  set(node.firstChild, "d", `M0 30L${line}L100 30Z`);
  set(node.lastChild, "d", `M${line}`);
}

export function plan(state) {
  const root = byId("plan");
  const rows = state.plan ? compared(state.plan) : [];
  if (!rows.length) {
    root.replaceChildren(make("p", { class: "note" }, state.plan === undefined ? LOADING : "This run has no plan."));
    root.parts = null;
    return;
  }
  if (!root.parts) {
    root.parts = { body: make("tbody") };
    const heads = ["", "Planned", "Actual"].map((name) =>
      name ? make("th", { scope: "col", class: "number" }, name) : make("td"),
    );
    root.replaceChildren(make("table", { class: "plain" }, make("thead", {}, make("tr", {}, heads)), root.parts.body));
  }
  each(
    root.parts.body,
    rows,
    ([name]) => name,
    ([name]) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, name),
        make("td", { class: "number" }),
        make("td", { class: "number" }),
      ),
    (row, [, planned, actual, over]) => {
      write(row.children[1], planned);
      write(row.children[2], actual);
      set(row.children[2], "data-tone", over ? "warn" : null);
    },
  );
}

function compared(told) {
  const row = (name, pair, word, value = (one) => one) => {
    const [planned, actual] = [value(pair?.planned), value(pair?.actual)];
    const over = planned > 0 ? actual > planned * 1.1 : name === RETRIES && actual > 0;
    return pair && (pair.planned || (pair.actual ?? null) !== null)
      ? [name, word(pair.planned), word(pair.actual), over]
      : null;
  };
  const tagged = (noun, pairs, word) =>
    Object.entries(pairs ?? {}).map(([tag, pair]) => row(`${noun} ${tag}`, pair, word));
  return [
    row("Duration", told.wall_s, length),
    row("Until ready", told.startup_s, length),
    row("Cost", told.cost, money, amount),
    row("Node hours", told.node_hours, (value) => figure(value)),
    ...tagged("Workers", told.workers, count),
    ...tagged("Tasks", told.tasks, count),
    ...tagged("Peak memory", told.peaks, bytes),
    row(RETRIES, told.retries, count),
  ].filter(Boolean);
}
