// The workers: a table that can be sorted and filtered, rows kept from one message to the next, and one in detail.

import { fact, show } from "./acting.js";
import { byId, each, make, set, write } from "./dom.js";
import { able, isRunning } from "./overview.js";
import { bytes, count, figure, length, LOADING, share, UNKNOWN } from "./words.js";

const FULL = 0.8; // of its limit: where the alert is
const MOST = 300; // rows drawn at once; sorting and the filter bring the others up
const COLUMNS = [
  { id: "worker", name: "Worker", value: (one) => one.worker },
  { id: "state", name: "State", value: (one) => one.state },
  { id: "doing", name: "Doing", value: (one) => doing(one), class: "wide-only" },
  {
    id: "memory",
    name: "Memory",
    value: (one) => (one.memory_limit ? (one.memory ?? 0) / one.memory_limit : (one.memory ?? 0) / 1e15),
    number: true,
  },
  { id: "cpu", name: "CPU", value: (one) => one.cpu ?? -1, number: true, class: "wide-only" },
  { id: "idle", name: "Idle", value: (one) => one.idle_s ?? -1, number: true },
  { id: "rate", name: "Rows/min", value: (one) => one.rows_per_min ?? -1, number: true, class: "wide-only" },
];

export class Workers {
  constructor(acting, state) {
    this.acting = acting;
    this.state = state;
    this.by = COLUMNS[0];
    this.down = false;
    this.changed = () => {}; // who draws asks to be told
    byId("worker-filter").addEventListener("input", () => this.changed());
    this.body = make("tbody");
    this.heads = COLUMNS.map((column) => {
      const button = make("button", { type: "button", class: "sort", onclick: () => this.sort(column) }, column.name);
      return make("th", { scope: "col", class: `${column.number ? "number " : ""}${column.class ?? ""}` }, button);
    });
    byId("workers").append(make("thead", {}, make("tr", {}, this.heads)), this.body);
  }

  sort(column) {
    this.down = this.by === column ? !this.down : Boolean(column.number);
    this.by = column;
    this.changed();
  }

  render() {
    const all = this.state.workers ?? [];
    const wanted = byId("worker-filter").value.trim().toLowerCase();
    const found = wanted
      ? all.filter((one) =>
          `${one.worker} ${one.tag} ${one.state} ${one.host} ${doing(one)}`.toLowerCase().includes(wanted),
        )
      : [...all];
    found.sort(
      (a, b) => (this.down ? -1 : 1) * compare(this.by.value(a), this.by.value(b)) || compare(a.worker, b.worker),
    );
    COLUMNS.forEach((column, at) =>
      set(this.heads[at], "aria-sort", column === this.by ? (this.down ? "descending" : "ascending") : null),
    );
    write(byId("workers-note"), note(this.state, found.length, Boolean(wanted)));
    each(
      this.body,
      found.slice(0, MOST),
      (one) => one.worker,
      (one) => this.row(one),
      ({ parts }, one) => update(parts, one),
    );
  }

  row(one) {
    const open = make("button", { type: "button", class: "link", onclick: () => this.open(one.worker) }, one.worker);
    const cells = COLUMNS.map((column) =>
      make(column.id === "worker" ? "th" : "td", { class: `${column.number ? "number " : ""}${column.class ?? ""}` }),
    );
    cells[0].setAttribute("scope", "row");
    const parts = {
      tag: make("span", { class: "tag" }),
      now: make("span", { class: "narrow-only note" }),
      state: make("span", { class: "badge" }),
      run: make("span", { class: "run" }),
      step: make("span", { class: "note" }),
      fill: make("span", { class: "fill" }),
      used: make("span", { class: "wide-only" }),
      part: make("span"),
      cpu: cells[4],
      idle: cells[5],
      rate: cells[6],
    };
    cells[0].append(open, parts.tag, parts.now);
    cells[1].append(parts.state);
    cells[2].append(parts.run, parts.step);
    cells[3].append(parts.used, parts.part, make("span", { class: "gauge", "aria-hidden": "true" }, parts.fill));
    const row = make("tr", {}, cells);
    row.parts = parts;
    return row;
  }

  open(name) {
    const one = (this.state.workers ?? []).find((each) => each.worker === name);
    const body = show(`Worker ${name}`);
    if (!one) return write(body, "It is gone.");
    const facts = [
      ["state", [one.state, one.why].filter(Boolean).join(": ")],
      ["tag", one.tag],
      ["host", one.host],
      ["job", one.job],
      ["memory", limits(one)],
      ["CPU", `${figure(one.cpu)} of ${figure(one.cpus)}`],
      ["idle", length(one.idle_s)],
    ];
    const runs = (one.runs ?? []).map((run) => this.run(run));
    if (!runs.length && one.task_count)
      runs.push(make("li", {}, `${count(one.task_count)} Dask tasks: ${(one.tasks ?? []).join(", ")}`));
    const log = make("div", { class: "log-box" });
    const buttons = make(
      "div",
      { class: "buttons" },
      this.button("Dump …", () => this.acting.dump(name)),
      this.button("Kill worker …", () => this.acting.killWorker(name), "danger"),
      make("button", { type: "button", onclick: () => this.acting.log(name, log) }, "Show log"),
    );
    body.replaceChildren(
      make(
        "dl",
        { class: "facts" },
        facts.filter(([, text]) => text && text !== UNKNOWN).map(([label, text]) => fact(label, String(text))),
      ),
      make("h3", {}, "Doing now"),
      runs.length ? make("ul", { class: "runs" }, runs) : make("p", { class: "note" }, "nothing"),
      buttons,
      log,
    );
  }

  run(run) {
    const text = make(
      "div",
      {},
      make("strong", {}, run.run),
      make(
        "p",
        { class: "note" },
        [step(run), length(run.seconds), bytes(run.memory)].filter((one) => one && one !== UNKNOWN).join(" · "),
      ),
    );
    return make(
      "li",
      {},
      text,
      make(
        "div",
        { class: "buttons" },
        this.button("Dump …", () => this.acting.dump(run.run), "small", `Dump run ${run.run}`),
        this.button("Kill run …", () => this.acting.killRun(run.run), "small danger", `Kill run ${run.run}`),
      ),
    );
  }

  button(text, act, kind = "", label = null) {
    const button = make("button", { type: "button", class: kind, "aria-label": label, onclick: act }, text);
    able(button, this.acting.locked() || (!this.state.run || isRunning(this.state) ? "" : "the run is over"));
    return button;
  }
}

function update(parts, one) {
  write(parts.tag, one.tag);
  write(parts.state, one.state);
  set(
    parts.state,
    "data-tone",
    { busy: "good", idle: "", starting: "info", leaving: "warn", lost: "bad" }[one.state] ?? "warn",
  );
  set(parts.state, "title", one.why || null);
  const text = doing(one);
  write(parts.run, one.runs?.length ? one.runs[0].run : text);
  write(
    parts.step,
    one.runs?.length
      ? [step(one.runs[0]), one.runs.length > 1 ? `and ${one.runs.length - 1} more` : ""].filter(Boolean).join(", ")
      : "",
  );
  write(parts.now, text);
  write(
    parts.used,
    one.memory_limit && typeof one.memory === "number" ? `${bytes(one.memory)} of ${bytes(one.memory_limit)}, ` : "",
  );
  write(
    parts.part,
    one.memory_limit && typeof one.memory === "number" ? share(one.memory / one.memory_limit) : bytes(one.memory),
  );
  const part = one.memory_limit ? (one.memory ?? 0) / one.memory_limit : 0;
  parts.fill.style.width = `${Math.min(100, part * 100)}%`;
  set(parts.fill, "data-tone", part > 1 ? "bad" : part > FULL ? "warn" : "");
  write(
    parts.cpu,
    typeof one.cpu === "number" ? `${one.cpu.toFixed(1)}${one.cpus ? ` / ${figure(one.cpus)}` : ""}` : UNKNOWN,
  );
  write(parts.idle, length(one.idle_s === null || one.idle_s === undefined ? NaN : Math.round(one.idle_s)));
  write(parts.rate, typeof one.rows_per_min === "number" ? one.rows_per_min.toFixed(1) : UNKNOWN);
}

function doing(one) {
  if (one.runs?.length) return [one.runs[0].run, step(one.runs[0])].filter(Boolean).join("  ");
  if (one.task_count) return `${count(one.task_count)} Dask tasks`;
  return one.why || "";
}

/** What a run says of itself; a note that says how far it is does not hear it again. */
function step(run) {
  const at = run.of ? `${run.step ?? 0}/${run.of}` : String(run.step ?? "");
  const note = run.note ?? "";
  return note.includes(at) ? note : [note, at].filter(Boolean).join(" ");
}

function limits(one) {
  if (typeof one.memory !== "number") return UNKNOWN;
  return one.memory_limit
    ? `${bytes(one.memory)} of ${bytes(one.memory_limit)}, ${share(one.memory / one.memory_limit)}`
    : bytes(one.memory);
}

function note(state, found, filtered) {
  const all = state.workers;
  if (!state.run || !all) return LOADING;
  if (!all.length) return isRunning(state) ? "No worker is there yet." : "The run is over; its workers are gone.";
  const states = new Map();
  for (const one of all) states.set(one.state, (states.get(one.state) ?? 0) + 1);
  const told = [...states]
    .sort()
    .map(([name, number]) => `${count(number)} ${name}`)
    .join(", ");
  const rest = found > MOST ? ` The first ${MOST} are shown.` : "";
  return `${told}${filtered ? `; ${count(found)} match` : ""}.${rest}`;
}

const inOrder = new Intl.Collator("en", { numeric: true }).compare; // w2 before w10; made once, for it is costly
const compare = (a, b) => (typeof a === "number" ? a - b : inOrder(a, b));
