// Your context: task, place, time of day, and whatever else is in it. Everything that you ask for
// can depend on it, and follows at once when it changes.

import { call, get, session } from "./api.js";
import { pretty } from "./conditions.js";
import { h, icon, show, toast } from "./dom.js";
import * as store from "./store.js";

const TASKS = ["work", "meeting", "commute", "lunch", "errands", "sport", "leisure", "family"];
const PARTS = [[5, "morning"], [11, "noon"], [14, "afternoon"], [18, "evening"], [22, "night"]];
export const DAYPARTS = PARTS.map((p) => p[1]);
const FACETS = ["task", "place", "daypart"];
const changes = new EventTarget();
export let context = {};

export const dayPart = (hour = new Date().getHours()) => PARTS.filter(([from]) => from <= hour).at(-1)?.[1] ?? "night";

const path = () => `/contexts/${encodeURIComponent(session.subject)}`;

async function refresh() {
  try {
    set((await get(path())).values ?? {});
  } catch (error) {
    if (error.status === 404) set({});
    else set((await store.read("context")) ?? context);
  }
}

function set(values) {
  context = values;
  store.write("context", values);
  changes.dispatchEvent(new Event("change"));
}

export async function patch(values) {
  const before = Object.fromEntries(Object.keys(values).map((name) => [name, context[name] ?? null]));
  try {
    // through the user agent, so that what it learned follows together with the context
    await call("PATCH", `/agents/${encodeURIComponent(session.subject)}/context`, values);
  } catch (error) {
    toast(navigator.onLine ? error.message : "Offline: your context stays as it was.");
    return null;
  }
  const next = { ...context, ...values };
  for (const [name, value] of Object.entries(values)) if (value === null) delete next[name];
  set(next);
  return before;
}

// The time of day follows the clock, unless it was chosen by hand.
export async function followClock() {
  await refresh();
  const tick = async () => {
    if ((await store.read("daypart by hand")) || context.daypart === dayPart() || !navigator.onLine) return;
    await patch({ daypart: dayPart() });
  };
  tick();
  setInterval(tick, 60000);
}

const worded = (value) => (Array.isArray(value) ? value.map((v) => (typeof v === "number" ? v.toFixed(4) : v)).join(", ")
  : value && typeof value === "object" ? Object.values(value).map((v) => (typeof v === "number" ? v.toFixed(4) : v)).join(", ") : String(value));

export function nowLine(signal) {
  const line = h("div", { class: "nowline" });
  const draw = () => {
    const known = FACETS.filter((name) => context[name] !== undefined);
    show(line, h("span", {}, "You, now:"),
      known.length ? known.map((name) => h("a", { class: "chip", href: "#now" }, worded(context[name])))
        : h("a", { class: "chip", href: "#now" }, "say where you are"),
      h("a", { class: "chip accent", href: "#now" }, "change"));
  };
  changes.addEventListener("change", draw, { signal });
  draw();
  return line;
}

export function now(main) {
  const body = h("div", { class: "stack" });
  show(main, h("div", { class: "stack narrow" }, h("h1", {}, "You, now"),
    h("p", { class: "soft" }, "What you ask for may depend on this. Change it, and the next message already follows."), body));
  const draw = () => show(body, facet("task", "What are you doing?", TASKS), places(), daypart(), others());
  changes.addEventListener("change", draw);
  draw();
  refresh();
  return () => changes.removeEventListener("change", draw);
}

function choose(name, value) {
  return async () => {
    if (name === "daypart") await store.write("daypart by hand", value !== null);
    const before = await patch({ [name]: value });
    if (before) toast(value === null ? `Your ${pretty(name)} is forgotten` : `Your ${pretty(name)}: ${value}`, { label: "Undo", run: () => patch(before) });
  };
}

function buttons(name, values, chosen) {
  return h("div", { class: "choices" }, values.map((value) =>
    h("button", { "aria-pressed": String(chosen === value), onclick: choose(name, chosen === value ? null : value) }, value)));
}

function facet(name, title, offered) {
  const chosen = context[name];
  const values = chosen === undefined || offered.includes(chosen) ? offered : [chosen, ...offered];
  return h("section", { class: "card stack tight" }, h("h2", {}, title), buttons(name, values, chosen));
}

let placeNames = null;
async function knownPlaces() {
  if (placeNames) return placeNames;
  placeNames = [];
  try {
    const { graphs } = await get("/graphs");
    const graph = graphs.find((g) => g.attribute === "place");
    if (graph && graph.edges < 20000) {
      const { edges } = await get("/graphs/place");
      placeNames = [...new Set(edges.flat())].sort();
    }
  } catch {
    placeNames = null;
  }
  changes.dispatchEvent(new Event("change"));
  return placeNames ?? [];
}

function places() {
  knownPlaces();
  const recent = [...new Set([context.place, ...(JSON.parse(localStorage.getItem("germane.places") ?? "[]"))].flat().filter((p) => typeof p === "string"))].slice(0, 6);
  const field = h("input", { id: "place", list: "places", placeholder: "A place", autocomplete: "off" });
  const go = async (e) => {
    e.preventDefault();
    const value = field.value.trim();
    if (!value) return;
    localStorage.setItem("germane.places", JSON.stringify([value, ...recent.filter((p) => p !== value)].slice(0, 6)));
    await choose("place", value)();
  };
  return h("section", { class: "card stack tight" }, h("h2", {}, "Where are you?"),
    recent.length ? buttons("place", recent, [context.place].flat()[0]) : null,
    h("form", { class: "row", onsubmit: go },
      h("label", { class: "visually-hidden", for: "place" }, "Another place"),
      h("div", { class: "grow" }, field), h("button", {}, "Set")),
    h("datalist", { id: "places" }, (placeNames ?? []).slice(0, 2000).map((name) => h("option", { value: name }))),
    h("div", { class: "row" },
      h("button", { onclick: locate }, icon("now"), "Use this device's position"),
      context.position && h("span", { class: "soft small" }, worded(context.position)),
      context.position && h("button", { class: "link soft", onclick: choose("position", null) }, "Forget it")));
}

function locate() {
  if (!navigator.geolocation) return toast("This device does not tell its position.");
  navigator.geolocation.getCurrentPosition(
    ({ coords }) => choose("position", [Number(coords.latitude.toFixed(5)), Number(coords.longitude.toFixed(5))])(),
    (error) => toast(`No position: ${error.message || "it was not allowed"}.`),
    { enableHighAccuracy: false, timeout: 15000, maximumAge: 60000 },
  );
}

function daypart() {
  return h("section", { class: "card stack tight" }, h("h2", {}, "Time of day"),
    buttons("daypart", DAYPARTS, context.daypart),
    h("p", { class: "soft small" }, "Follows the clock, until you choose one; choose it again to let go."));
}

function others() {
  // "situation" is what the user agent calls all of this together; it is not the person's to set
  const rest = Object.entries(context).filter(([name]) => ![...FACETS, "position", "situation"].includes(name));
  const name = h("input", { id: "ctx-name", placeholder: "unread", required: true, pattern: "[A-Za-z_][A-Za-z0-9_]*", title: "letters, digits, _" });
  const value = h("input", { id: "ctx-value", placeholder: "12", required: true });
  const add = async (e) => {
    e.preventDefault();
    await patch({ [name.value]: typed(value.value) });
  };
  return h("section", { class: "card stack tight" }, h("h2", {}, "Anything else"),
    rest.length ? h("ul", { class: "examples" }, rest.map(([key, each]) => h("li", {}, h("span", {}, h("code", {}, key), " ", worded(each)),
      h("span", {}, h("button", { class: "link", onclick: choose(key, null), "aria-label": `Forget ${key}` }, "Forget"))))) : null,
    h("form", { class: "row", onsubmit: add },
      h("div", { class: "grow field" }, h("label", { for: "ctx-name" }, "Name"), name),
      h("div", { class: "grow field" }, h("label", { for: "ctx-value" }, "Value"), value),
      h("button", { class: "add" }, "Set")));
}

export function typed(text) {
  const trimmed = text.trim();
  if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(trimmed)) return Number(trimmed);
  if (/^(true|false)$/i.test(trimmed)) return /^t/i.test(trimmed);
  return trimmed;
}
