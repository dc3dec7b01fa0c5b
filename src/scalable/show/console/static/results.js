// What a sweep has shown so far: each variant's verdict, and its effects with their confidence intervals.

import { byId, choices, make, svg, write } from "./dom.js";
import { ask } from "./feed.js";
import { count, figure, probability, UNKNOWN } from "./words.js";

const AGAIN_MS = 60_000; // results are statistics over all rows: not for every row that comes
const TONES = { LOCK: "good", ABANDON: "bad", KEEP_AVAILABLE: "info" };
const PLOT = { wide: 160, high: 20 };

export class Results {
  constructor(acting, state) {
    this.acting = acting;
    this.state = state;
    this.choice = byId("results-sweep");
    this.choice.addEventListener("change", () => this.forget());
    this.changed = () => {}; // who draws asks to be told
    this.forget();
  }

  forget() {
    this.found = null;
    this.asked = "";
    this.drawn = null;
    this.next = 0;
    this.changed?.();
  }

  render() {
    const sweeps = this.state.sweeps ?? [];
    choices(
      this.choice,
      sweeps.map((one) => [one.name, one.name]),
    );
    this.choice.parentElement.hidden = sweeps.length < 2;
    const sweep = sweeps.find((one) => one.name === this.choice.value);
    if (!sweep) {
      write(byId("results-note"), "Results of a sweep appear here.");
      return this.clear();
    }
    this.refresh(sweep);
    if (this.found && this.found !== this.drawn) this.draw(sweep);
    else if (!this.found) {
      write(byId("results-note"), "Looking at what is there …");
      this.clear();
    }
  }

  clear() {
    byId("results").replaceChildren();
    byId("results").hidden = true;
  }

  /** Asked again when rows came, but not more often than is of use. */
  refresh(sweep) {
    const version = [this.state.run?.run_id, sweep.name, sweep.rows, sweep.failed, sweep.status].join(" ");
    if (version === this.asked || this.loading) return;
    const wait = this.next - performance.now();
    if (wait > 0 && sweep.status === this.status) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.changed(), wait);
      return;
    }
    [this.asked, this.status] = [version, sweep.status];
    this.next = performance.now() + AGAIN_MS;
    this.load(sweep.name, version);
  }

  async load(sweep, version) {
    this.loading = true;
    const words = new URLSearchParams({ run: this.state.run?.run_id ?? "", sweep });
    let found;
    try {
      found = await ask(`/api/results?${words}`);
    } catch (error) {
      found = { error: error.message };
    }
    this.loading = false;
    if (version === this.asked) this.found = found;
    if (found.error) this.asked = ""; // a store that was locked may answer later
    this.changed();
  }

  draw() {
    const found = (this.drawn = this.found);
    const table = byId("results");
    if (found.error || !found.variants?.length) {
      write(byId("results-note"), found.error || "No variant can be judged yet.");
      return this.clear();
    }
    table.hidden = false;
    const part = found.complete ? "complete" : `preliminary: ${count(found.finished)} of ${count(found.expected)} rows`;
    write(
      byId("results-note"),
      `${part}; ${found.primary ?? ""} decides: ${found.method ?? ""}; differences are to ${found.baseline ?? ""}`,
    );
    const scales = scaled(found.variants);
    const heads = [
      ["Variant"],
      ["Metric"],
      ["Difference", "number"],
      ["Interval"],
      ["p", "number"],
      ["Role", "wide-only"],
    ];
    table.replaceChildren(
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          heads.map(([name, kind]) => make("th", { scope: "col", class: kind }, name)),
        ),
      ),
      ...found.variants.map((variant) => group(variant, scales)),
    );
  }
}

/** For each metric the widest interval of any variant, so that intervals of one metric can be compared. */
function scaled(variants) {
  const most = {};
  for (const { metrics } of variants) {
    for (const { name, delta, ci } of metrics ?? []) {
      const reach = Math.max(Math.abs(delta ?? 0), ...(ci ?? []).map((end) => Math.abs(end ?? 0)));
      if (Number.isFinite(reach)) most[name] = Math.max(most[name] ?? 0, reach);
    }
  }
  return most;
}

function group(variant, scales) {
  const metrics = variant.metrics?.length ? variant.metrics : [null];
  const badge = variant.verdict
    ? make("span", { class: "badge", "data-tone": TONES[variant.verdict] ?? "info" }, variant.verdict.replace("_", " "))
    : "";
  const head = make(
    "th",
    { scope: "rowgroup", rowspan: metrics.length },
    make("span", { class: "variant" }, variant.variant),
    badge,
    make("span", { class: "note" }, variant.reason ?? ""),
  );
  const rows = metrics.map((metric, at) =>
    make(
      "tr",
      {},
      at ? null : head,
      metric
        ? effect(metric, scales[metric.name])
        : make("td", { colspan: 5, class: "note" }, variant.verdict ? "nothing to compare yet" : "baseline"),
    ),
  );
  return make("tbody", {}, rows);
}

function effect({ name, role, delta, ci, p, p_corrected: corrected }, most) {
  const interval = ci?.every?.((end) => typeof end === "number") ? ci : null;
  const clear = interval && (interval[0] > 0 || interval[1] < 0);
  return [
    make("td", {}, name),
    make("td", { class: `number${clear ? " strong" : ""}` }, signed(delta)),
    make("td", {}, interval ? plot(delta, interval, most, clear) : UNKNOWN),
    make("td", { class: "number" }, probability(corrected ?? p)),
    make("td", { class: "wide-only" }, role ?? ""),
  ];
}

function plot(delta, [low, high], most, clear) {
  const x = (value) => PLOT.wide / 2 + (value / (most || 1)) * (PLOT.wide / 2 - 6);
  const middle = PLOT.high / 2;
  const line = (x1, x2, y1, y2, kind) => svg("line", { x1, x2, y1, y2, class: kind });
  return svg(
    "svg",
    {
      class: `interval${clear ? " clear" : ""}`,
      width: PLOT.wide,
      height: PLOT.high,
      viewBox: `0 0 ${PLOT.wide} ${PLOT.high}`,
      role: "img",
      "aria-label": `from ${signed(low)} to ${signed(high)}`,
    },
    line(PLOT.wide / 2, PLOT.wide / 2, 0, PLOT.high, "zero"),
    line(x(low), x(high), middle, middle, "range"),
    line(x(low), x(low), middle - 4, middle + 4, "range"),
    line(x(high), x(high), middle - 4, middle + 4, "range"),
    svg("circle", { cx: x(delta ?? 0), cy: middle, r: 3.5 }),
    svg("title", {}, `${signed(low)} … ${signed(high)}`),
  );
}

function signed(value) {
  const text = figure(value);
  return typeof value === "number" && value > 0 ? `+${text}` : text.replace("-", "−");
}
