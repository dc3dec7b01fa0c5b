// The cells of one sweep: what each is, where it stands on the picture, and what it is called.

export const STATES = [
  { letter: ".", name: "waiting" },
  { letter: "r", name: "running" },
  { letter: "d", name: "done" },
  { letter: "t", name: "there before" },
  { letter: "f", name: "failed" },
  { letter: "m", name: "missing" },
  { letter: "-", name: "not part of it" },
];
const CODES = new Map(STATES.map(({ letter }, code) => [letter, code]));
export const NOT_PART = CODES.get("-");

const NARROWEST = 6; // pixels of a cell that can still be told from its neighbour and pointed at
const WIDEST = 36;
const ROW = 30; // of a variant, shared by what is averaged
const THINNEST = 5;
const BETWEEN_GROUPS = 4;
const BETWEEN_VARIANTS = 4;
const HEAD = 20; // names of groups
const BAND = 12; // between two bands of groups

export class Cells {
  constructor({ sweep, factor, axes, average, cells, why }) {
    this.why = why ?? "";
    this.sweep = sweep;
    this.factor = factor;
    this.named = Object.entries(axes ?? {});
    this.axes = drawn(this.named, average ?? []);
    this.known = Boolean(axes && cells);
    this.size = this.axes.reduce((product, axis) => product * axis.length, 1);
    this.states = new Uint8Array(this.known ? this.size : 0);
    this.counts = new Int32Array(STATES.length);
    this.changed = new Set();
    for (let at = 0; at < this.states.length; at += 1) {
      this.states[at] = CODES.get(cells[at]) ?? 0;
      this.counts[this.states[at]] += 1;
    }
  }

  take(changes) {
    for (const [at, letter] of changes) {
      const code = CODES.get(letter);
      if (code === undefined || !(at >= 0 && at < this.states.length)) continue;
      this.counts[this.states[at]] -= 1;
      this.counts[code] += 1;
      this.states[at] = code;
      this.changed.add(at);
    }
  }

  /** Position on each axis. */
  place(index) {
    const [, groups, repeats, parts] = this.axes.map((axis) => axis.length);
    const part = index % parts;
    const repeat = Math.floor(index / parts) % repeats;
    const group = Math.floor(index / (parts * repeats)) % groups;
    return [Math.floor(index / (parts * repeats * groups)), group, repeat, part];
  }

  index([variant, group, repeat, part]) {
    const [, groups, repeats, parts] = this.axes.map((axis) => axis.length);
    return ((variant * groups + group) * repeats + repeat) * parts + part;
  }

  name(index) {
    const [variant, ...others] = this.place(index).map((at, axis) => this.axes[axis][at]);
    return [variant && `${this.factor || "variant"} ${variant}`, ...others].filter(Boolean).join(" · ");
  }

  text(index) {
    return `${this.name(index)}: ${STATES[this.states[index]].name}`;
  }

  /** By variant and group: how many cells are in each state. */
  tally() {
    const [variants, groups, repeats, parts] = this.axes.map((axis) => axis.length);
    const block = repeats * parts;
    return Array.from({ length: variants }, (_, variant) =>
      Array.from({ length: groups }, (_, group) => {
        const begin = (variant * groups + group) * block;
        const found = new Int32Array(STATES.length);
        for (let at = begin; at < begin + block; at += 1) found[this.states[at]] += 1;
        return found;
      }),
    );
  }
}

/**
 * The four directions of the picture: variants, groups (all repeated axes but the last), columns (the last one) and
 * what is averaged. Each has a label for every combination of values of its axes.
 */
function drawn(axes, average) {
  const [variant, ...others] = axes.map(([name, labels]) => [name, labels.map(String)]);
  const averaged = others.filter(([name]) => average.includes(name));
  const over = others.filter(([name]) => !average.includes(name));
  const groups = over.length > 1 ? over.slice(0, -1) : over;
  const columns = over.length > 1 ? over.slice(-1) : [];
  return [variant?.[1] ?? [""], ...[groups, columns, averaged].map(combined)];
}

function combined(axes) {
  const join = (before, [name, labels]) =>
    before.flatMap((start) => labels.map((label) => [start, worded(name, label)].filter(Boolean).join(" ")));
  return axes.reduce(join, [""]);
}

/** A text by itself, a number with the name of its axis. */
const worded = (name, label) => (/^(-?[\d.]+(e[-+]?\d+)?|true|false)$/.test(label) ? `${name} ${label}` : label);

/** Where cells stand: variants and what is averaged downwards, groups and columns across, in as many bands as it takes. */
export class Layout {
  constructor(cells, width, label) {
    const [variants, groups, repeats, parts] = cells.axes.map((axis) => axis.length);
    Object.assign(this, { cells, label, variants, groups, repeats, parts });
    const room = Math.max(60, width - label);
    const fitting = Math.floor((room / groups - BETWEEN_GROUPS) / repeats);
    this.wide = Math.min(WIDEST, Math.max(NARROWEST, fitting));
    this.spread = this.wide * repeats + BETWEEN_GROUPS;
    this.across = Math.max(1, Math.min(groups, Math.floor((room + BETWEEN_GROUPS) / this.spread)));
    this.high = Math.max(THINNEST, Math.floor(ROW / parts));
    this.row = this.high * parts + BETWEEN_VARIANTS;
    this.band = HEAD + this.row * variants + BAND;
    this.bands = Math.ceil(groups / this.across);
    this.width = label + this.across * this.spread - BETWEEN_GROUPS;
    this.height = this.bands * this.band - BAND;
  }

  box(index) {
    const [variant, group, repeat, part] = this.cells.place(index);
    const band = Math.floor(group / this.across);
    return {
      x: this.label + (group % this.across) * this.spread + repeat * this.wide,
      y: band * this.band + HEAD + variant * this.row + part * this.high,
    };
  }

  /** The cell at a point, or -1. */
  at(x, y) {
    const band = Math.floor(y / this.band);
    const down = y - band * this.band - HEAD;
    const right = x - this.label;
    if (down < 0 || right < 0 || band >= this.bands) return -1;
    const variant = Math.floor(down / this.row);
    const part = Math.floor((down - variant * this.row) / this.high);
    const column = Math.floor(right / this.spread);
    const repeat = Math.floor((right - column * this.spread) / this.wide);
    const group = band * this.across + column;
    const outside = variant >= this.variants || part >= this.parts || repeat >= this.repeats;
    if (outside || column >= this.across || group >= this.groups) return -1;
    return this.cells.index([variant, group, repeat, part]);
  }
}
export { BETWEEN_VARIANTS, HEAD };
