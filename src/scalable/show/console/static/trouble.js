// What went wrong: incidents with their evidence, failures, retries, and alerts that are over.

import { byId, each, entry, make, set, write } from "./dom.js";
import { clock, count, LOADING, plural } from "./words.js";

export function incidents(state, acting) {
  const trouble = state.trouble ?? {};
  const failures = trouble.failure_count ?? 0;
  const root = byId("incidents");
  const parts = (root.parts ??= build(root));
  const found = [...(trouble.incidents ?? [])].reverse();
  const latest = `The latest ${count(found.length)} of ${incidentCount(trouble)} are listed.`;
  write(parts.note, found.length ? latest : state.trouble ? "No incident." : LOADING);
  parts.note.hidden = found.length ? found.length === trouble.incident_count : failures > 0;
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
  const some = `The latest ${count(failed.length)} of ${plural(failures, "failure")}`;
  write(parts.title, failed.length < failures ? some : `Failures (${count(failures)})`);
  each(
    parts.failures,
    failed,
    (one) => `${one.t} ${one.task}`,
    (one) =>
      entry(one.task ?? "", clock(one.t), [one.error, one.worker && `on ${one.worker}`].filter(Boolean).join(" · ")),
  );
}

export const incidentCount = ({ incident_count: number = 0 }) => plural(number, "incident");

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
  const head = [
    parts.kind,
    make("strong", {}, what),
    make("time", { class: "number" }, clock(one.started)),
    make("button", { type: "button", class: "small", "aria-label": label, onclick: show }, "Evidence"),
  ];
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
      : state.trouble
        ? "No retry."
        : LOADING,
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
