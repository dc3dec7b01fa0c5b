// One small text beside the pointer, shared by the pictures. Screen readers get the same elsewhere.

import { make, write } from "./dom.js";

const AWAY = 12; // pixels from the pointer
const node = make("div", { class: "tip", "aria-hidden": "true", hidden: true });
document.body.append(node);

export const tip = {
  show(text, x, y) {
    write(node, text);
    node.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = node;
    const left = Math.max(8, Math.min(x + AWAY, window.innerWidth - width - 8));
    const above = y + AWAY + height > window.innerHeight - 8;
    node.style.transform = `translate(${left}px, ${above ? y - AWAY - height : y + AWAY}px)`;
  },
  hide() {
    node.hidden = true;
  },
};
