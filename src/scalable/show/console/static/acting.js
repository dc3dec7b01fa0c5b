// What an operator does: every action is asked about in a dialog, sent once, and answered in the same dialog.

import { byId, make, set, write } from "./dom.js";
import { ask } from "./feed.js";

export class Acting {
  constructor(feed, state) {
    this.feed = feed;
    this.state = state;
    this.done = () => {}; // called when something was done
    this.dialog = byId("ask");
    this.dialog.querySelector("form").addEventListener("submit", (event) => this.answered(event));
    this.dialog.addEventListener("close", () => this.closed());
    byId("show").addEventListener("close", () => back(byId("show")));
  }

  /** Why nothing can be done here; empty if it can. */
  locked() {
    return this.state.session.read_only ? "read-only: this console was started with --read-only" : "";
  }

  pause() {
    const fields = [
      choice("now", "", "Let what is running end", true),
      choice("now", "yes", "Stop what is running now, and let the workers go; it is run again later", false),
    ];
    this.confirm(
      { title: "Pause this run?", text: "Nothing new starts until it is resumed.", fields, ok: "Pause" },
      () => ({
        action: "pause",
        now: this.value("now") === "yes",
      }),
    );
  }

  resume() {
    this.confirm({ title: "Resume this run?", text: "What waits is started again.", ok: "Resume" }, () => ({
      action: "resume",
    }));
  }

  kill(target, noun, text) {
    const request = { title: `Kill ${noun}?`, text, ok: "Kill", danger: true };
    this.confirm(request, () => ({ action: "kill", target }));
  }

  killWorker(worker) {
    this.kill(worker, `worker ${worker}`, "What it runs is started again on another worker and counts as no failure.");
  }

  killRun(run) {
    this.kill(run, `run ${run}`, "It is stopped for good; rows it has not given stay missing until the next start.");
  }

  killSweep(sweep) {
    this.kill(
      sweep,
      `sweep ${sweep}`,
      "All its runs are stopped. Rows that are stored stay; the next start computes the rest.",
    );
  }

  killAll() {
    this.kill("all", "everything in this run", "All runs of all sweeps are stopped. Rows that are stored stay.");
  }

  dump(target) {
    const text = "Shows where every thread of its processes is right now. Nothing is stopped.";
    this.confirm({ title: `Dump ${target}?`, text, ok: "Dump" }, () => ({ action: "dump", target }));
  }

  markFailed(sweep) {
    const text =
      "Results that are marked count no longer, and the next run computes them again. Name a sweep, a run or a key.";
    const fields = [input("target", "What", sweep), input("reason", "Why", "")];
    this.confirm({ title: "Mark results failed?", text, fields, ok: "Mark failed", danger: true }, () => ({
      action: "mark-failed",
      target: this.value("target"),
      reason: this.value("reason"),
    }));
  }

  replay() {
    const text = "Every dead letter is offered to the database again. What it refuses again stays a dead letter.";
    this.confirm({ title: "Replay dead letters?", text, ok: "Replay" }, () => ({ action: "replay" }));
  }

  confirm({ title, text, fields = [], ok, danger = false }, request) {
    if (this.locked()) return;
    this.request = request;
    this.turn = (this.turn ?? 0) + 1;
    write(byId("ask-title"), title);
    write(byId("ask-text"), text);
    byId("ask-fields").replaceChildren(...fields);
    byId("ask-result").replaceChildren();
    write(byId("ask-ok"), ok);
    write(byId("ask-cancel"), "Cancel");
    byId("ask-ok").className = danger ? "danger solid" : "primary";
    byId("ask-ok").hidden = false;
    this.busy(false);
    this.from = document.activeElement;
    this.dialog.showModal();
    (byId("ask-fields").querySelector("input") ?? byId("ask-cancel")).focus();
  }

  answered(event) {
    if (event.submitter !== byId("ask-ok")) return; // cancelled: the dialog closes by itself
    event.preventDefault();
    this.send();
  }

  async send() {
    const turn = this.turn;
    this.busy(true);
    write(byId("ask-result"), "Waiting for the answer …");
    let said;
    try {
      said = await this.feed.act({ ...this.request(), run: this.state.run?.run_id });
    } catch (error) {
      said = { ok: false, error: error.message };
    }
    if (said.ok) this.done();
    if (turn !== this.turn) return; // the dialog is about something else by now
    this.busy(false);
    const result = make(
      "p",
      { class: "result", "data-tone": said.ok ? "good" : "bad" },
      said.ok ? said.text || "Done." : said.error,
    );
    byId("ask-result").replaceChildren(result, ...(said.dump ? [block("Dump", said.dump)] : []));
    if (said.ok) {
      byId("ask-fields").replaceChildren();
      byId("ask-ok").hidden = true;
      write(byId("ask-cancel"), "Close");
      byId("ask-cancel").focus();
    }
  }

  busy(yes) {
    byId("ask-ok").disabled = yes;
    set(this.dialog, "aria-busy", yes ? "true" : null);
  }

  /** Focus goes back to where the question came from. */
  closed() {
    this.turn += 1;
    if (this.from?.isConnected) this.from.focus();
  }

  value(name) {
    const chosen =
      this.dialog.querySelector(`[name="${name}"]:checked`) ?? this.dialog.querySelector(`[name="${name}"]`);
    return chosen.value;
  }

  async incident(id) {
    const body = show(`Incident ${id}`);
    const found = await this.get("/api/incident", { id }, body);
    if (!found) return;
    const rows = ["kind", "severity", "run", "attempt", "worker", "tag", "host", "guilty", "outcome", "escalation"]
      .filter((name) => found[name])
      .map((name) => fact(name, String(found[name])));
    for (const name of ["done", "prevent"]) if (found[name].length) rows.push(fact(name, found[name].join("\n")));
    body.replaceChildren(make("dl", { class: "facts" }, rows), block("Evidence", found.text || "There is none."));
  }

  /** The end of a worker's log, put where it is asked for. */
  async log(worker, body) {
    const found = await this.get("/api/log", { worker }, body);
    if (!found) return;
    const cut = found.cut ? "… [earlier lines are left out: the log is too long]\n" : "";
    const text = cut + found.lines.join("\n") || "It has said nothing.";
    body.replaceChildren(block(`Last lines of the log of ${worker}`, text));
  }

  async get(address, query, body) {
    const words = new URLSearchParams({ run: this.state.run?.run_id ?? "", ...query });
    write(body, "Loading …");
    try {
      return await ask(`${address}?${words}`);
    } catch (error) {
      write(body, error.message);
      return null;
    }
  }
}

/** Opens the large dialog and gives its body. */
export function show(title) {
  const dialog = byId("show");
  write(byId("show-title"), title);
  byId("show-body").replaceChildren();
  dialog.from = document.activeElement;
  dialog.showModal();
  byId("show-close").focus();
  return byId("show-body");
}

function back(dialog) {
  if (dialog.from?.isConnected) dialog.from.focus();
}

export function fact(name, text) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, text));
}

function block(title, text) {
  return make("section", { "aria-label": title }, make("h3", {}, title), make("pre", { tabindex: "0" }, text));
}

function choice(name, value, text, checked) {
  return make("label", { class: "choice" }, make("input", { type: "radio", name, value, checked }), text);
}

function input(name, text, value) {
  return make("label", { class: "field" }, text, make("input", { name, value, required: true, autocomplete: "off" }));
}
