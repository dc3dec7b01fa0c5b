// Workers by tag, work that runs and waits, and the fullest worker, on one time axis with the scaling decisions.

import { byId, each, entry, make, set, svg, write } from "./dom.js";
import { tip } from "./tip.js";
import { clock, count, length, LOADING, share } from "./words.js";

const LEFT = 40;
const RIGHT = 8;
const TAGS = 6; // colours there are; further tags share the last
const PLOTS = [
  { name: "workers", top: 24, height: 104 },
  { name: "work", top: 160, height: 80 },
  { name: "memory", top: 272, height: 48 },
];
const HEIGHT = 344;
const FULL = 0.8; // of its limit: where the alert is

export class Pool {
  constructor() {
    this.root = byId("pool");
    this.picture = svg("svg", { class: "chart", role: "img", "aria-label": "Workers and pending work over time" });
    this.picture.addEventListener("pointermove", (event) => this.pointed(event));
    this.picture.addEventListener("pointerleave", () => this.left());
    this.key = make("ul", { class: "legend", "aria-label": "Legend" });
    this.summary = make("p", { class: "note number" });
    this.root.append(this.key, this.picture, this.summary);
    this.layers = {};
    for (const name of ["axes", "areas", "lines", "markers", "cross"])
      this.picture.append((this.layers[name] = svg("g")));
    this.wide = this.root.clientWidth; // asking again in every frame would have the page laid out once more
    new ResizeObserver(([entry]) => {
      if (Math.abs(entry.contentRect.width - this.wide) <= 1) return;
      this.wide = entry.contentRect.width;
      if (this.state) this.render(this.state);
    }).observe(this.root);
  }

  render(state) {
    this.state = state;
    const series = (this.series = state.series?.t?.length ? state.series : null);
    set(this.picture, "hidden", !series);
    this.key.hidden = !series;
    const empty = state.series ? "Workers and work appear here once there are some." : LOADING;
    if (!series) return write(this.summary, empty);
    const { t } = series;
    this.first = t[0];
    this.span = Math.max(1, t.at(-1) - t[0]);
    set(this.picture, "viewBox", `0 0 ${this.wide} ${HEIGHT}`);
    set(this.picture, "height", HEIGHT);
    const tags = Object.keys(series.live ?? {}).filter((tag) => series.live[tag].some(Boolean));
    const stacked = stack(
      tags.map((tag) => series.live[tag]),
      t.length,
    );
    const most = [Math.max(1, ...(stacked.at(-1) ?? [])), Math.max(1, ...series.waiting, ...series.running), 1];
    this.axes(most, t);
    each(
      this.layers.areas,
      tags.map((tag, at) => [tag, at]),
      ([tag]) => tag,
      ([, at]) => svg("path", { class: `area tag-${Math.min(at, TAGS - 1)}` }),
      (node, [, at]) => {
        set(node, "d", this.area(stacked[at], stacked[at - 1], most[0]));
      },
    );
    const lines = [
      ["waiting", series.waiting, 1, true],
      ["running", series.running, 1, true],
      ["memory", series.memory_share ?? [], 2, false],
    ];
    each(
      this.layers.lines,
      lines,
      ([name]) => name,
      ([name]) => svg("path", { class: `line ${name}` }),
      (node, [, values, plot, steps]) => {
        set(node, "d", this.line(values, plot, most[plot], steps));
      },
    );
    this.markers(state.decisions ?? []);
    this.legend(tags);
    this.tell(tags, series);
  }

  x(moment) {
    return LEFT + ((moment - this.first) / this.span) * (this.wide - LEFT - RIGHT);
  }

  y(value, plot, most) {
    const { top, height } = PLOTS[plot];
    return top + height - (value / most) * height;
  }

  line(values, plot, most, steps) {
    let path = "";
    let before = null;
    values.forEach((value, at) => {
      if (value === null || value === undefined) return void (before = null);
      const [x, y] = [this.x(this.series.t[at]).toFixed(1), this.y(value, plot, most).toFixed(1)];
      path += before === null ? `M${x} ${y}h0` : steps ? `H${x}V${y}` : `L${x} ${y}`;
      before = value;
    });
    return path;
  }

  area(upper, lower, most) {
    const up = this.line(upper, 0, most, true);
    const floor = PLOTS[0].top + PLOTS[0].height;
    const end = this.x(this.series.t.at(-1)).toFixed(1);
    if (!lower) return `${up}V${floor}H${this.x(this.first).toFixed(1)}Z`;
    let down = `L${end} ${this.y(lower.at(-1), 0, most).toFixed(1)}`;
    for (let at = lower.length - 1; at > 0; at -= 1) {
      down += `V${this.y(lower[at - 1], 0, most).toFixed(1)}`.replace("V", `H${this.x(this.series.t[at]).toFixed(1)}V`);
    }
    return `${up}${down}Z`;
  }

  axes(most, t) {
    const marks = [];
    PLOTS.forEach(({ name, top, height }, plot) => {
      marks.push({
        key: `title-${name}`,
        text: { workers: "Workers", work: "Work", memory: "Fullest worker's memory" }[name],
        x: LEFT,
        y: top - 8,
        kind: "title",
      });
      const steps =
        plot === 2
          ? [0, FULL, 1]
          : [0, most[plot] / 2, most[plot]].filter((value, at) => at !== 1 || Number.isInteger(value));
      for (const [at, value] of steps.entries()) {
        const y = top + height - (value / most[plot]) * height;
        const text = plot < 2 ? count(value) : value === FULL || value === 0 ? share(value) : "";
        marks.push({ key: `${name}-${at}`, line: true, y, kind: plot === 2 && value === FULL ? "limit" : "rule" });
        marks.push({ key: `${name}-text-${at}`, text, x: LEFT - 8, y: y + 4, kind: "scale" });
      }
    });
    const ticks = Math.max(2, Math.min(6, Math.floor(this.wide / 140)));
    for (let at = 0; at < ticks; at += 1) {
      const moment = t[0] + (this.span * at) / (ticks - 1);
      const kind = at === 0 ? "time first" : at === ticks - 1 ? "time last" : "time";
      marks.push({
        key: `time-${at}`,
        text: clock(moment).slice(0, this.span > 600 ? 5 : 8),
        x: this.x(moment),
        y: HEIGHT - 4,
        kind,
      });
    }
    each(
      this.layers.axes,
      marks,
      (one) => `${one.key} ${one.kind}`,
      (one) => (one.line ? svg("line", { class: one.kind }) : svg("text", { class: one.kind })),
      (node, one) => {
        if (one.line) {
          for (const [name, value] of [
            ["x1", LEFT],
            ["x2", this.wide - RIGHT],
            ["y1", one.y],
            ["y2", one.y],
          ])
            set(node, name, value);
        } else {
          set(node, "x", one.x);
          set(node, "y", one.y);
          write(node, one.text);
        }
      },
    );
  }

  markers(decisions) {
    const shown = decisions.filter((one) => one.t >= this.first - 5);
    const { top, height } = PLOTS[0];
    each(
      this.layers.markers,
      shown,
      (one) => `${one.t} ${one.tag} ${one.direction}`,
      (one) => svg("path", { class: `marker ${one.direction}` }, svg("title", {}, told(one))),
      (node, one) => {
        const x = Math.max(LEFT, Math.min(this.wide - RIGHT, this.x(one.t)));
        const y = top + height + 4;
        set(node, "d", one.direction === "up" ? `M${x - 4} ${y + 7}h8l-4 -7z` : `M${x - 4} ${y}h8l-4 7z`);
      },
    );
  }

  legend(tags) {
    const items = [
      ...tags.map((tag, at) => [`workers ${tag}`, `tag-${Math.min(at, TAGS - 1)}`]),
      ["running", "running"],
      ["waiting", "waiting"],
      ["▲ ▼ scaling decision", ""],
    ];
    each(
      this.key,
      items,
      ([name]) => name,
      ([name, kind]) =>
        make("li", {}, kind ? make("span", { class: `sample ${kind}`, "aria-hidden": "true" }) : "", name),
    );
  }

  tell(tags, series) {
    const live = tags.map((tag) => `${count(series.live[tag].at(-1))} ${tag}`).join(", ");
    const most = tags.map((tag) => `${count(Math.max(...series.live[tag]))} ${tag}`).join(", ");
    const work = `${count(series.running.at(-1))} running, ${count(series.waiting.at(-1))} waiting`;
    const text = `Latest figures: ${live || "no"} workers, ${work}. Most at a time: ${most || "none"}. Shown: ${length(this.span)}.`;
    write(this.summary, text);
  }

  pointed(event) {
    const { series } = this;
    if (!series) return;
    const moment = this.first + ((event.offsetX - LEFT) / (this.wide - LEFT - RIGHT)) * this.span;
    let at = series.t.findIndex((t) => t > moment) - 1;
    if (at < 0) at = moment < this.first ? 0 : series.t.length - 1;
    const x = this.x(series.t[at]);
    each(
      this.layers.cross,
      [0],
      String,
      () => svg("line", { class: "cross", y1: 0, y2: HEIGHT - 20 }),
      (node) => {
        set(node, "x1", x);
        set(node, "x2", x);
      },
    );
    const live = Object.entries(series.live).map(([tag, values]) => `${tag} ${count(values[at])}`);
    const near = (this.state.decisions ?? []).filter((one) => Math.abs(this.x(one.t) - event.offsetX) < 5).slice(0, 3);
    const memory = series.memory_share?.[at];
    const lines = [
      clock(series.t[at]),
      `workers ${live.join(", ") || 0}`,
      `running ${count(series.running[at])}, waiting ${count(series.waiting[at])}`,
    ];
    if (typeof memory === "number") lines.push(`fullest worker ${share(memory)}`);
    tip.show([...lines, ...near.map(told)].join("\n"), event.clientX, event.clientY);
  }

  left() {
    tip.hide();
    each(this.layers.cross, [], String, () => null);
  }
}

export function decisions(state) {
  const list = byId("decisions");
  const all = [...(state.decisions ?? [])].reverse();
  set(list, "data-empty", all.length ? null : state.decisions ? "none yet" : LOADING);
  each(
    list,
    all,
    (one) => `${one.t} ${one.tag} ${one.direction} ${one.to}`,
    (one) => {
      return entry(`${one.direction === "up" ? "▲" : "▼"} ${change(one)}`, clock(one.t), one.reason ?? "");
    },
  );
}

function told(one) {
  return `${clock(one.t)} ${one.direction}: ${change(one)}. ${one.reason ?? ""}`;
}

function change(one) {
  return `${one.tag ?? ""} ${count(one.from)} → ${count(one.to)}`;
}

/** Running sums, the first tag at the bottom. */
function stack(lists, size) {
  const sums = [];
  let below = new Array(size).fill(0);
  for (const list of lists) sums.push((below = below.map((value, at) => value + (list[at] ?? 0))));
  return sums;
}
