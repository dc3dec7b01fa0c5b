// The heat map: a canvas that is drawn whole when its shape changes and cell by cell when it fills.

import { BETWEEN_VARIANTS, Cells, HEAD, Layout, NOT_PART, STATES } from "./cells.js";
import { byId, choices, each, make, write } from "./dom.js";
import { tip } from "./tip.js";
import { count } from "./words.js";

const MARKED_FROM = 7; // pixels of a cell in which a sign can be seen
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const LABELS = 120; // pixels for the names of variants, at most
const NOTHING = "The cells of a sweep appear here and fill in.";
const FONT = "11px system-ui, sans-serif";

export class Grid {
  constructor() {
    this.sweeps = new Map();
    this.canvas = byId("grid-canvas");
    this.keys = byId("grid-keys");
    this.choice = byId("grid-sweep");
    this.ring = make("div", { class: "ring", hidden: true });
    this.keys.append(this.ring);
    this.focused = 0;
    this.choice.addEventListener("change", () => this.redraw());
    byId("grid-details").addEventListener("toggle", () => this.table());
    this.keys.addEventListener("keydown", (event) => this.pressed(event));
    this.keys.addEventListener("focus", () => this.move(this.focused));
    this.keys.addEventListener("blur", () => (this.ring.hidden = true));
    this.canvas.addEventListener("pointermove", (event) => this.pointed(event));
    this.canvas.addEventListener("pointerleave", () => tip.hide());
    new ResizeObserver(() => this.redraw()).observe(byId("grid-scroll"));
    this.changed = () => {}; // who draws asks to be told
    legend();
  }

  take(grids) {
    this.sweeps = new Map(grids.map((one) => [one.sweep, new Cells(one)]));
    this.layout = null;
  }

  patch({ sweep, changed }) {
    this.sweeps.get(sweep)?.take(changed);
  }

  /** Take what was drawn for gone: the size, the theme or the sweep is another. */
  redraw() {
    this.layout = null;
    this.changed();
  }

  get cells() {
    return this.sweeps.get(this.choice.value);
  }

  render() {
    choices(
      this.choice,
      [...this.sweeps.keys()].map((name) => [name, name]),
    );
    this.choice.parentElement.hidden = this.sweeps.size < 2;
    const cells = this.cells;
    const drawn = Boolean(cells?.known);
    byId("grid-scroll").hidden = byId("grid-legend").hidden = byId("grid-details").hidden = !drawn;
    write(byId("grid-note"), drawn ? shape(cells) : cells?.why || NOTHING);
    if (!drawn) return write(byId("grid-cell"), "");
    if (this.layout?.cells === cells) this.repaint(cells.changed);
    else this.paint(cells);
    cells.changed.clear();
    this.counted(cells);
    if (byId("grid-details").open) this.table();
  }

  paint(cells) {
    const samples = [...byId("grid-legend").querySelectorAll(".sample")].map((node) => getComputedStyle(node));
    this.colours = samples.map((style) => style.backgroundColor);
    this.sign = samples[0].color;
    this.ink = getComputedStyle(byId("grid-note")).color;
    const context = (this.context = this.canvas.getContext("2d"));
    context.font = FONT;
    const longest = Math.max(0, ...cells.axes[0].map((name) => context.measureText(name).width));
    const label = Math.ceil(Math.min(LABELS, longest) + (longest ? 12 : 0));
    const layout = (this.layout = new Layout(cells, byId("grid-scroll").clientWidth, label));
    const dense = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(layout.width * dense);
    this.canvas.height = Math.round(layout.height * dense);
    this.canvas.style.width = `${layout.width}px`;
    this.canvas.style.height = `${layout.height}px`;
    context.setTransform(dense, 0, 0, dense, 0, 0);
    for (let at = 0; at < cells.size; at += 1) this.cell(at);
    this.names(layout);
    this.keys.setAttribute(
      "aria-label",
      `Grid of ${cells.sweep}, ${count(cells.size)} cells; arrow keys move over them`,
    );
    this.focused = Math.min(this.focused, cells.size - 1);
    this.ring.hidden = true;
  }

  repaint(changed) {
    for (const at of changed) this.cell(at);
    if (document.activeElement === this.keys && changed.has(this.focused)) this.move(this.focused);
  }

  cell(index) {
    const { layout, context } = this;
    const { x, y } = layout.box(index);
    const [wide, high] = [layout.wide - 1, layout.high - 1];
    const code = this.cells.states[index];
    context.clearRect(x, y, layout.wide, layout.high);
    if (code === NOT_PART) return;
    context.fillStyle = this.colours[code];
    context.fillRect(x, y, wide, high);
    if (Math.min(wide, high) + 1 >= MARKED_FROM) mark(context, code, x, y, wide, high, this.sign);
  }

  names(layout) {
    const { context, cells } = this;
    context.font = FONT;
    context.fillStyle = this.ink;
    context.textBaseline = "middle";
    const middle = (layout.row - BETWEEN_VARIANTS) / 2;
    for (let band = 0; band < layout.bands; band += 1) {
      const top = band * layout.band;
      cells.axes[0].forEach((name, variant) => {
        const y = top + HEAD + variant * layout.row + middle;
        context.fillText(shortened(context, name, layout.label - 12), 0, y);
      });
      let free = layout.label;
      const first = band * layout.across;
      cells.axes[1].slice(first, first + layout.across).forEach((name, column) => {
        const x = layout.label + column * layout.spread;
        const text = shortened(context, name, Math.max(layout.spread - 4, 64));
        if (x < free || x + context.measureText(text).width > layout.width + 4) return;
        context.fillText(text, x, top + HEAD / 2 - 1);
        free = x + context.measureText(text).width + 8;
      });
    }
  }

  counted(cells) {
    for (const [code] of STATES.entries()) {
      write(byId(`legend-${code}`), count(cells.counts[code]));
      byId(`legend-${code}`).parentElement.hidden = code === NOT_PART && !cells.counts[code];
    }
  }

  pointed(event) {
    const index = this.layout ? this.layout.at(event.offsetX, event.offsetY) : -1;
    if (index < 0) return tip.hide();
    tip.show(this.cells.text(index), event.clientX, event.clientY);
  }

  pressed(event) {
    if (!this.layout || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = this.neighbour(event.key);
    if (next === undefined) return;
    event.preventDefault();
    this.move(next);
  }

  neighbour(key) {
    const { cells } = this;
    const [variants, groups, repeats, parts] = cells.axes.map((axis) => axis.length);
    const [variant, group, repeat, part] = cells.place(this.focused);
    if (key === "Home") return cells.index([variant, 0, 0, part]);
    if (key === "End") return cells.index([variant, groups - 1, repeats - 1, part]);
    if (!STEPS[key]) return undefined;
    const row = clamp(variant * parts + part + STEPS[key][0], variants * parts);
    const column = clamp(group * repeats + repeat + STEPS[key][1], groups * repeats);
    return cells.index([Math.floor(row / parts), Math.floor(column / repeats), column % repeats, row % parts]);
  }

  move(index) {
    if (!this.layout) return;
    this.focused = index;
    const { x, y } = this.layout.box(index);
    const style = this.ring.style;
    [style.left, style.top] = [`${x - 2}px`, `${y - 2}px`];
    [style.width, style.height] = [`${this.layout.wide + 3}px`, `${this.layout.high + 3}px`];
    this.ring.hidden = false;
    this.ring.scrollIntoView({ block: "nearest", inline: "nearest" });
    write(byId("grid-cell"), this.cells.text(index));
  }

  /** The same for those who cannot see it, and for whoever likes figures. */
  table() {
    const cells = this.cells;
    if (!cells?.known || !byId("grid-details").open) return;
    const tally = cells.tally();
    const heads = ["", ...cells.axes[1]].map((name, at) => (at ? make("th", { scope: "col" }, name) : make("td")));
    const rows = cells.axes[0].map((variant, v) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, variant),
        tally[v].map((found) => make("td", {}, summary(found))),
      ),
    );
    byId("grid-table").replaceChildren(
      make("caption", {}, "Cells with a result, of all that belong to it"),
      make("thead", {}, make("tr", {}, heads)),
      make("tbody", {}, rows),
    );
  }
}

function legend() {
  const items = STATES.map(({ name }, code) => {
    const sample = make("span", { class: `sample state-${code}`, "aria-hidden": "true" });
    return make("li", {}, sample, `${name} `, make("span", { id: `legend-${code}`, class: "number" }));
  });
  byId("grid-legend").replaceChildren(...items);
}

/** A sign in each state that has one, so that colour is not all there is. */
function mark(context, code, x, y, wide, high, colour) {
  const name = STATES[code].name;
  const [left, right, top, bottom] = [x + 2, x + wide - 2, y + 2, y + high - 2];
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1.25;
  context.beginPath();
  if (name === "running") {
    context.moveTo(left, bottom);
    context.lineTo(right, top);
  } else if (name === "failed") {
    context.moveTo(left, top);
    context.lineTo(right, bottom);
    context.moveTo(left, bottom);
    context.lineTo(right, top);
  } else if (name === "there before") {
    context.arc(x + wide / 2, y + high / 2, 1.25, 0, 2 * Math.PI);
    context.fill();
    return;
  } else if (name === "missing") {
    context.moveTo(left, y + high / 2);
    context.lineTo(right, y + high / 2);
  }
  context.stroke();
}

function summary(found) {
  const [, running, done, there, failed, , none] = found;
  const all = found.reduce((sum, one) => sum + one, 0) - none;
  const more = [running && `${running} running`, failed && `${failed} failed`].filter(Boolean).join(", ");
  return all ? `${done + there}/${all}${more ? `, ${more}` : ""}` : "–";
}

function shape(cells) {
  const parts = cells.named.map(([name, { length }]) => `${length} ${name}${length === 1 || name.endsWith("s") ? "" : "s"}`);
  return `${cells.factor || cells.sweep}: ${parts.join(" × ")}`;
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let kept = text;
  while (kept && context.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}

const clamp = (value, size) => Math.max(0, Math.min(size - 1, value));
