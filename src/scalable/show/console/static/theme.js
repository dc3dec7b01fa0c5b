// Before anything is painted: the theme that was chosen here, else the system's.
"use strict";

try {
  const chosen = localStorage.getItem("scalable-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden; the system's theme is right then.
}
