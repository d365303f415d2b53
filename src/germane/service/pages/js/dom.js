// Elements without markup strings: children are text or elements, so nothing that a sender wrote
// is ever read as HTML.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && !name.startsWith("aria") && name !== "list" && name !== "role")
      element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export const $ = (selector, root = document) => root.querySelector(selector);

// Where a fragment leads, part by part; what cannot be decoded is as it was written.
export const parts = () => location.hash.slice(1).split("/").map((part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
});

export function show(root, ...children) {
  root.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
}

// Show anew, and leave the focus and what is being typed where they are. An element is known by its
// id, or by its words.
export function redraw(root, ...children) {
  const known = (e) => (e.id ? `#${e.id}` : `${e.tagName} ${e.ariaLabel ?? e.textContent}`);
  const typed = [...root.querySelectorAll("input[id]")].map((field) => [field.id, field.value]);
  const active = root.contains(document.activeElement) ? known(document.activeElement) : null;
  show(root, ...children);
  for (const [id, value] of typed) {
    const field = root.querySelector(`#${CSS.escape(id)}`);
    if (field) field.value = value;
  }
  if (active) [...root.querySelectorAll("button, input, select, a")].find((e) => known(e) === active)?.focus({ preventScroll: true });
}

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  inbox: "M4 5h16v14H4zM4 14h4l2 3h4l2-3h4",
  now: "M12 21c-4-4.5-6-8-6-11a6 6 0 0 1 12 0c0 3-2 6.500-6 11zM12 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
  tune: "M4 7h9M17 7h3M4 17h3M11 17h9M15 7a2 2 0 1 0 .01 0M9 17a2 2 0 1 0 .01 0",
  keep: "M7 4h10v16l-5-4-5 4z",
  close: "M6 6l12 12M18 6L6 18",
  less: "M7 14V5H4v9zM7 14l4 6c1.500 0 2-1 2-2v-3h5a2 2 0 0 0 2-2.300l-1.200-6A2 2 0 0 0 17 5H7",
  plus: "M12 5v14M5 12h14",
  back: "M15 5l-7 7 7 7",
  spark: "M12 3l1.800 5.200L19 10l-5.200 1.800L12 17l-1.800-5.200L5 10l5.200-1.800z",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  mute: "M5 10v4h3l4 4V6L8 10zM16 10l4 4M20 10l-4 4",
  check: "M5 12l5 5 9-10",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}

// Words for people.

export function ago(moment, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - new Date(moment)) / 1000));
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  return new Date(moment).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

export const clock = (moment) =>
  new Date(moment).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });

export const number = (value, digits = 0) =>
  value === null || value === undefined || Number.isNaN(value)
    ? "–"
    : Number(value).toLocaleString(undefined, { maximumFractionDigits: digits });

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

// A link only where it leads to the web; anything else a sender wrote stays text.
export function safeLink(text) {
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

let toastTimer;
export function toast(text, ...given) {
  const place = $("#toast");
  const actions = given.filter(Boolean); // some calls have none to offer
  clearTimeout(toastTimer);
  show(place, h("span", {}, text), actions.map((action) =>
    h("button", { class: "link", onclick: () => { place.hidden = true; action.run(); } }, action.label)));
  place.hidden = false;
  toastTimer = setTimeout(() => (place.hidden = true), actions.length ? 8000 : 4000);
}
