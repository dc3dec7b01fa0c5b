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
const AXES = ["variant", "asset", "fold", "cost_bps"];

const NARROWEST = 6; // pixels of a cell that can still be told from its neighbour and pointed at
const WIDEST = 36;
const ROW = 30; // of a variant, shared by its costs
const THINNEST = 5;
const BETWEEN_ASSETS = 4;
const BETWEEN_VARIANTS = 4;
const HEAD = 20; // names of assets
const BAND = 12; // between two bands of assets

export class Cells {
  constructor({ sweep, factor, axes, cells, why }) {
    this.why = why ?? "";
    this.sweep = sweep;
    this.factor = factor;
    this.axes = AXES.map((name) => (axes?.[name]?.length ? axes[name].map(String) : [""]));
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
    const [, assets, folds, costs] = this.axes.map((axis) => axis.length);
    const cost = index % costs;
    const fold = Math.floor(index / costs) % folds;
    const asset = Math.floor(index / (costs * folds)) % assets;
    return [Math.floor(index / (costs * folds * assets)), asset, fold, cost];
  }

  index([variant, asset, fold, cost]) {
    const [, assets, folds, costs] = this.axes.map((axis) => axis.length);
    return ((variant * assets + asset) * folds + fold) * costs + cost;
  }

  name(index) {
    const [variant, asset, fold, cost] = this.place(index).map((at, axis) => this.axes[axis][at]);
    const parts = [variant && `${this.factor || "variant"} ${variant}`, asset, fold && `fold ${fold}`];
    return [...parts, cost && `${cost} bps`].filter(Boolean).join(" · ");
  }

  text(index) {
    return `${this.name(index)}: ${STATES[this.states[index]].name}`;
  }

  /** By variant and asset: how many cells are in each state. */
  tally() {
    const [variants, assets, folds, costs] = this.axes.map((axis) => axis.length);
    const block = folds * costs;
    return Array.from({ length: variants }, (_, variant) =>
      Array.from({ length: assets }, (_, asset) => {
        const begin = (variant * assets + asset) * block;
        const found = new Int32Array(STATES.length);
        for (let at = begin; at < begin + block; at += 1) found[this.states[at]] += 1;
        return found;
      }),
    );
  }
}

/** Where cells stand: variants and costs downwards, assets and folds across, in as many bands as it takes. */
export class Layout {
  constructor(cells, width, label) {
    const [variants, assets, folds, costs] = cells.axes.map((axis) => axis.length);
    Object.assign(this, { cells, label, variants, assets, folds, costs });
    const room = Math.max(60, width - label);
    const fitting = Math.floor((room / assets - BETWEEN_ASSETS) / folds);
    this.wide = Math.min(WIDEST, Math.max(NARROWEST, fitting));
    this.group = this.wide * folds + BETWEEN_ASSETS;
    this.across = Math.max(1, Math.min(assets, Math.floor((room + BETWEEN_ASSETS) / this.group)));
    this.high = Math.max(THINNEST, Math.floor(ROW / costs));
    this.row = this.high * costs + BETWEEN_VARIANTS;
    this.band = HEAD + this.row * variants + BAND;
    this.bands = Math.ceil(assets / this.across);
    this.width = label + this.across * this.group - BETWEEN_ASSETS;
    this.height = this.bands * this.band - BAND;
  }

  box(index) {
    const [variant, asset, fold, cost] = this.cells.place(index);
    const band = Math.floor(asset / this.across);
    return {
      x: this.label + (asset % this.across) * this.group + fold * this.wide,
      y: band * this.band + HEAD + variant * this.row + cost * this.high,
    };
  }

  /** The cell at a point, or -1. */
  at(x, y) {
    const band = Math.floor(y / this.band);
    const down = y - band * this.band - HEAD;
    const right = x - this.label;
    if (down < 0 || right < 0 || band >= this.bands) return -1;
    const variant = Math.floor(down / this.row);
    const cost = Math.floor((down - variant * this.row) / this.high);
    const column = Math.floor(right / this.group);
    const fold = Math.floor((right - column * this.group) / this.wide);
    const asset = band * this.across + column;
    const outside = variant >= this.variants || cost >= this.costs || fold >= this.folds;
    if (outside || column >= this.across || asset >= this.assets) return -1;
    return this.cells.index([variant, asset, fold, cost]);
  }
}
export { BETWEEN_VARIANTS, HEAD };
