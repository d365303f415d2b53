// Your context: task, place, time of day, and whatever else is in it. Everything that you ask for
// can depend on it, and follows at once when it changes.

import { call, get, session } from "./api.js";
import { pretty } from "./conditions.js";
import { $, h, icon, redraw, show, toast } from "./dom.js";
import { sentence } from "./faults.js";
import { mailbox } from "./mailbox.js";
import * as store from "./store.js";

const TASKS = ["work", "meeting", "commute", "lunch", "errands", "sport", "leisure", "family"];
const PARTS = [[5, "morning"], [11, "noon"], [14, "afternoon"], [18, "evening"], [22, "night"]];
export const DAYPARTS = PARTS.map((p) => p[1]);
const FACETS = ["task", "place", "daypart"];
const LOOK_MS = 4000; // how often to look whether the context was changed elsewhere
const LOOK_PAUSE_MS = 1000; // but not more often than this, however much arrives
const ANSWER_MS = 15000; // a look that takes longer is given up, so that there can be another
const BY_HAND = "daypart by hand"; // whether the time of day was chosen on this device
const BY_CLOCK = "daypart by the clock"; // what the clock said when this device last looked
const changes = new EventTarget();
export let context = {};
let known = false; // whether it was read, here or from what was kept

export const dayPart = (hour = new Date().getHours()) => PARTS.filter(([from]) => from <= hour).at(-1)?.[1] ?? "night";

const path = () => `/contexts/${encodeURIComponent(session.subject)}`;

let changed = 0; // how often it was changed here: an answer from before that is out of date

// Read it; whether the service told it.
async function refresh() {
  const before = changed;
  let values;
  let told = true;
  try {
    values = (await get(path(), { signal: AbortSignal.timeout(ANSWER_MS) })).values ?? {};
  } catch (error) {
    told = error.status === 404;
    values = told ? {} : await store.read("context");
  }
  if (values && before === changed) set(values);
  return told;
}

// What of the context can be learned from: words, and yes or no; nothing where it is not known.
export function facets() {
  if (!known) return undefined;
  const words = Object.entries(context).map(([name, value]) => [name, [value].flat()[0]])
    .filter(([name, value]) => name !== "situation" && name.length <= 100
      && (typeof value === "boolean" || (typeof value === "string" && value.length <= 500)));
  words.sort(([a], [b]) => FACETS.includes(b) - FACETS.includes(a));
  return Object.fromEntries(words.slice(0, 20));
}

const sorted = (values) => JSON.stringify(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1)));

function set(values) {
  known = true;
  if (sorted(values) === sorted(context)) return;
  context = values;
  store.write("context", values);
  changes.dispatchEvent(new Event("change"));
}

export async function patch(values) {
  const before = Object.fromEntries(Object.keys(values).map((name) => [name, context[name] ?? null]));
  changed += 1;
  try {
    // through the user agent, so that what it learned follows together with the context
    await call("PATCH", `/agents/${encodeURIComponent(session.subject)}/context`, values);
  } catch (error) {
    toast(!navigator.onLine ? "Offline: your context stays as it was." : error.status ? sentence(error.message) : error.message);
    return null;
  } finally {
    changed += 1;
  }
  const next = { ...context, ...values };
  for (const [name, value] of Object.entries(values)) if (value === null) delete next[name];
  set(next);
  return before;
}

// The context may change elsewhere: on another device, or on a page that this one is shown in. It
// is read again when something arrives, when the page is seen again, when the page around it says
// so, and every few seconds, but never twice at once.
let following = false;
export async function followContext() {
  await refresh();
  if (following) return;
  following = true;
  let turn = Promise.resolve(); // one after the other: two at a time would both tell the same
  const byTheClock = () => (turn = turn.then(followClock).catch(() => {}));
  byTheClock();
  setInterval(byTheClock, 60000);
  let looking = false;
  let again = false;
  const look = async () => {
    if (!session.subject || !navigator.onLine || document.visibilityState !== "visible") return;
    if (looking) {
      again = true;
      return;
    }
    looking = true;
    again = false;
    await refresh();
    setTimeout(() => {
      looking = false;
      if (again) look();
    }, LOOK_PAUSE_MS);
  };
  setInterval(look, LOOK_MS);
  document.addEventListener("visibilitychange", look);
  mailbox.addEventListener("change", (e) => e.detail.arrived !== null && look());
  addEventListener("message", (e) => e.origin === location.origin && e.data === "germane:context" && look());
}

// The time of day follows the clock, unless it was chosen by hand, here or on another device: what
// is not what the clock said when this device last looked is somebody's choice.
async function followClock() {
  if (!navigator.onLine || (await store.read(BY_HAND))) return;
  const clock = dayPart();
  const before = await store.read(BY_CLOCK);
  if (clock === before && context.daypart !== undefined) return;
  if (!(await refresh())) return; // a hidden page does not look otherwise
  const follows = context.daypart === undefined || context.daypart === before;
  if (follows && context.daypart !== clock && !(await patch({ daypart: clock }))) return;
  await store.write(BY_CLOCK, clock);
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
  const draw = () => redraw(body, facet("task", "What are you doing?", TASKS), places(), daypart(), others());
  changes.addEventListener("change", draw);
  draw();
  refresh();
  return () => changes.removeEventListener("change", draw);
}

// What sets a value, and says whether it was taken.
function choose(name, value) {
  return async () => {
    const was = await store.read(BY_HAND);
    const byHand = (is) => (name === "daypart" ? store.write(BY_HAND, is) : null);
    await byHand(value !== null);
    const before = await patch({ [name]: value });
    if (!before) {
      await byHand(was);
      return false;
    }
    const undo = () => Promise.all([byHand(was), patch(before)]);
    toast(value === null ? `Your ${pretty(name)} is forgotten` : `Your ${pretty(name)}: ${worded(value)}`, { label: "Undo", run: undo });
    return true;
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

let placeNames = [];
let placesAsked = false; // once; after a failure again when there is a network
addEventListener("online", () => {
  placesAsked = placeNames.length > 0;
  changes.dispatchEvent(new Event("change"));
});

async function knownPlaces() {
  if (placesAsked) return;
  placesAsked = true;
  try {
    const { graphs } = await get("/graphs");
    const graph = graphs.find((g) => g.attribute === "place");
    if (!graph || graph.edges >= 20000) return;
    const { edges } = await get("/graphs/place");
    placeNames = [...new Set(edges.flat())].sort();
    changes.dispatchEvent(new Event("change"));
  } catch {
    /* a place can be typed without being offered */
  }
}

function places() {
  knownPlaces();
  const recent = [...new Set([context.place, ...store.places()].flat().filter((p) => typeof p === "string"))].slice(0, 6);
  const field = h("input", { id: "place", list: "places", placeholder: "A place", autocomplete: "off" });
  const go = async (e) => {
    e.preventDefault();
    const value = field.value.trim();
    if (!value) return;
    field.value = "";
    if (await choose("place", value)()) store.keepPlaces([value, ...recent.filter((p) => p !== value)].slice(0, 6));
    else giveBack("place", value);
  };
  return h("section", { class: "card stack tight" }, h("h2", {}, "Where are you?"),
    recent.length ? buttons("place", recent, [context.place].flat()[0]) : null,
    h("form", { class: "row", onsubmit: go },
      h("label", { class: "visually-hidden", for: "place" }, "Another place"),
      h("div", { class: "grow" }, field), h("button", {}, "Set")),
    h("datalist", { id: "places" }, placeNames.slice(0, 2000).map((name) => h("option", { value: name }))),
    h("div", { class: "row" },
      h("button", { onclick: locate }, icon("now"), "Use this device's position"),
      context.position && h("span", { class: "soft small" }, worded(context.position)),
      context.position && h("button", { class: "link soft", onclick: choose("position", null) }, "Forget it")));
}

// What was refused can be corrected where it was typed, unless something else stands there by now.
function giveBack(id, value) {
  const field = $(`#${id}`);
  if (field && !field.value) field.value = value;
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
    const [key, words] = [name.value, value.value];
    name.value = value.value = "";
    if (await patch({ [key]: typed(words) })) return;
    giveBack("ctx-name", key);
    giveBack("ctx-value", words);
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
