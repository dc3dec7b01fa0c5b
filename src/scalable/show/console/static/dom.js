// Makes and changes elements. What comes from a run is text only: nothing here takes markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; strings become text. `on…` attributes are listeners. */
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** An entry of a list of what happened: what, when, and more about it. */
export function entry(what, when, more) {
  const head = [make("strong", { class: "number" }, what), make("time", { class: "number" }, when)];
  return make("li", {}, make("p", { class: "log-head" }, head), make("p", { class: "note" }, more));
}

export const byId = (id) => document.getElementById(id);

/** Text is set only when it differs, so that nothing is laid out anew for nothing. */
export function write(node, text) {
  const said = text === null || text === undefined ? "" : String(text);
  if (node.textContent !== said) node.textContent = said;
}

export function set(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else {
    const said = value === true ? "" : String(value);
    if (node.getAttribute(name) !== said) node.setAttribute(name, said);
  }
}

/**
 * Children of `parent`, one for each item, in their order. Those with a known key are kept and updated, so focus,
 * selection and scrolling survive.
 */
export function each(parent, items, keyOf, create, update) {
  const known = parent.keyed ?? new Map();
  const next = new Map();
  let at = parent.firstChild;
  for (const item of items) {
    const key = String(keyOf(item));
    if (next.has(key)) continue;
    const node = known.get(key) ?? create(item);
    next.set(key, node);
    update?.(node, item);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
  for (const [key, node] of known) if (next.get(key) !== node) node.remove();
  parent.keyed = next;
}

/** The choices of a select; what is chosen stays chosen while it is there. */
export function choices(select, items) {
  const shown = items.map(([value, text]) => `${value}\n${text}`).join("\n\n");
  if (select.shown === shown) return;
  select.shown = shown;
  const chosen = select.value;
  select.replaceChildren(...items.map(([value, text]) => make("option", { value }, text)));
  if (items.some(([value]) => value === chosen)) select.value = chosen;
}
