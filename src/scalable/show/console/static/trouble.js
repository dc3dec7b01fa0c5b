// What went wrong: incidents with their evidence, failures, retries, and alerts that are over.

import { byId, each, entry, make, set, write } from "./dom.js";
import { clock, count, plural } from "./words.js";

const SENT = 50; // failures that the server sends at most, the latest

export function incidents(state, acting) {
  const trouble = state.trouble ?? {};
  const root = byId("incidents");
  const parts = (root.parts ??= build(root));
  const found = [...(trouble.incidents ?? [])].reverse();
  const latest = `The latest ${count(found.length)} of ${incidentCount(trouble)} are listed.`;
  write(parts.note, found.length ? latest : "No incident.");
  parts.note.hidden = Boolean(found.length) && found.length === trouble.incident_count;
  each(
    parts.list,
    found,
    (one) => `${one.id} ${one.started} ${one.kind} ${one.run ?? one.worker}`,
    (one) => incident(one, acting),
    ({ parts: { text, outcome, kind } }, one) => {
      write(text, one.text ?? "");
      write(outcome, one.outcome ?? "");
      set(kind, "data-tone", one.severity === "high" ? "bad" : "warn");
    },
  );
  const failed = [...(trouble.failures ?? [])].reverse();
  parts.title.hidden = !failed.length;
  write(parts.title, failed.length < SENT ? `Failures (${count(failed.length)})` : `The latest ${SENT} failures`);
  each(
    parts.failures,
    failed,
    (one) => `${one.t} ${one.task}`,
    (one) =>
      entry(one.task ?? "", clock(one.t), [one.error, one.worker && `on ${one.worker}`].filter(Boolean).join(" · ")),
  );
}

/** In words; of very many only the latest are remembered, so there are more. */
export function incidentCount({ incident_count: number = 0, incidents_forgotten: more }) {
  return `${more ? "more than " : ""}${plural(number, "incident")}`;
}

function build(root) {
  const parts = {
    note: make("p", { class: "note" }),
    list: make("ul", { class: "log" }),
    title: make("h3", { hidden: true }),
    failures: make("ol", { class: "log" }),
  };
  root.replaceChildren(parts.note, parts.list, parts.title, parts.failures);
  return parts;
}

function incident(one, acting) {
  const parts = {
    kind: make("span", { class: "badge" }, one.kind ?? "unknown"),
    text: make("p"),
    outcome: make("p", { class: "note" }),
  };
  const what = [one.run, one.worker && `on ${one.worker}`].filter(Boolean).join(" ");
  const label = `Evidence of incident ${one.id}`;
  const show = () => acting.incident(one.id);
  const head = [parts.kind, make("strong", {}, what), make("time", { class: "number" }, clock(one.started))];
  if (one.id)
    head.push(make("button", { type: "button", class: "small", "aria-label": label, onclick: show }, "Evidence"));
  const node = make("li", {}, make("p", { class: "log-head" }, head), parts.text, parts.outcome);
  node.parts = parts;
  return node;
}

export function retries(state) {
  const { retries: told = {}, alerts_past: past = [], dead_letters: dead } = state.trouble ?? {};
  const root = byId("retries");
  const parts = (root.parts ??= structure(root));
  const causes = Object.entries(told.by_cause ?? {}).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...causes.map(([, number]) => number));
  write(
    parts.note,
    told.count
      ? `${plural(told.count, "retry", "retries")}${dead ? `, ${plural(dead, "dead letter")}` : ""}`
      : "No retry.",
  );
  each(
    parts.causes,
    causes,
    ([cause]) => cause,
    ([cause]) => {
      const parts = { fill: make("span", { class: "fill" }), number: make("span", { class: "number" }) };
      const node = make(
        "li",
        {},
        make("span", {}, cause),
        parts.number,
        make("span", { class: "gauge", "aria-hidden": "true" }, parts.fill),
      );
      node.parts = parts;
      return node;
    },
    ({ parts: { fill, number } }, [, times]) => {
      fill.style.width = `${(times / most) * 100}%`;
      write(number, count(times));
    },
  );
  const latest = [...(told.latest ?? [])].reverse().slice(0, 8);
  each(
    parts.latest,
    latest,
    (one) => `${one.t} ${one.run} ${one.cause}`,
    (one) => entry(one.run ?? "", clock(one.t), one.cause ?? ""),
  );
  parts.title.hidden = !past.length;
  each(
    parts.past,
    [...past].reverse().slice(0, 20),
    (one) => `${one.t ?? one.since} ${one.alert} ${one.text}`,
    (one) => entry([one.alert, one.state].filter(Boolean).join(" "), clock(one.t ?? one.since), one.text ?? ""),
  );
}

function structure(root) {
  const title = make("h3", { hidden: true }, "Alerts so far");
  const parts = {
    note: make("p", { class: "note number" }),
    causes: make("ul", { class: "causes" }),
    latest: make("ol", { class: "log" }),
    title,
    past: make("ol", { class: "log" }),
  };
  root.replaceChildren(parts.note, parts.causes, parts.latest, parts.title, parts.past);
  return parts;
}
