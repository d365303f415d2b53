// The demo page. All it shows comes from the service's API, read with an operator's token: the log
// of events (who moved, what was said), the stream of deliveries, explanations, figures.

import { call, follow, get, keep, session, takeToken } from "./api.js";
import { describe, plain } from "./conditions.js";
import { $, ago, h, number, plural, redraw, show, toast } from "./dom.js";
import { FACES, Town, isPlace } from "./town.js";

const POLL_MS = 500;
const [NEWS, KEPT] = [14, 60]; // messages that are shown, and that are known
const OWN_MS = 4000; // so often your subscriptions are read: the phone changes them, too
const [PAST, PAST_PAGE] = [3000, 150]; // deliveries that are read at most when the page is opened
const [EVENTS_PAGES, EVENTS_PAGE] = [4, 500]; // and events
const [FEW, MANY] = [10, 1000]; // events that a look at the log asks for, by how many came last
const CATCHING_UP_MS = 2000;
const AT_M = 20; // so near to a venue one is there
const TASKS = ["leisure", "work", "meeting", "lunch", "sport"];
const ASKS = [
  ["Food near me", "topic WITHIN 'Food' AND DISTANCE(position, context.position) <= 800"],
  ["Whatever happens where I am", "DISTANCE(position, context.position) <= 500"],
  ["Music, but not at work", "topic WITHIN 'Music' AND NOT context.task IN ('work', 'meeting')"],
  ["Sports", "topic WITHIN 'Sports'"],
];
const YOU = "you";
const BATCH = { headers: { "Content-Type": "application/cloudevents-batch+json" } };
const FIRST_TOPIC = "Food";
const REACH_MS = 1000; // until it is known who got what you said
const WALKER = "A walker";
const [GOT, MISSED, SHOWN] = [4, 2, 6]; // of those who got a message and who did not: so many are named
const named = new Map(); // id -> {label, number, says, subscription, last, lastAt}
const news = new Map(); // seq -> {event, at, reached: Map of subscriber -> id of the delivery}
let town;
let map;
let seen = 0;
let asked = new Map(); // condition -> ids of your subscriptions
let ownToken = null;

async function begin() {
  const given = new URLSearchParams(location.hash.slice(1));
  const kept = JSON.parse(sessionStorage.getItem("germane.demo") ?? "{}");
  const setup = given.get("token") ? { map: given.get("map"), you: given.get("you") } : kept;
  sessionStorage.setItem("germane.demo", JSON.stringify(setup));
  takeToken();
  ownToken = setup.you;
  if (!session.token || !setup.map) return withoutDemo();
  map = await theMap(setup.map);
  if (!map) return withoutDemo();
  town = new Town($("#map"), map);
  map.people.forEach((person, k) => {
    named.set(person.id, { ...person, number: k });
    town.move(person.id, null, { named: true, label: person.label, number: k });
  });
  town.move(YOU, null, { you: true, label: "you" });
  $("#more-news").addEventListener("click", showNew);
  openPhone();
  you();
  prepareToSay().catch((error) => toast(error.message));
  await Promise.all([readOwn(), readNews(), ...[...named.keys(), YOU].map(readContext), ...[...named.values()].map(readLast)]);
  setTimeout(poll, POLL_MS);
  drawPeople();
  follow("/deliveries/stream", { after: () => lastDelivery, signal: new AbortController().signal, onState: () => {}, onEvent: delivered });
  figures();
  setInterval(figures, 2000);
  setInterval(drawPeople, 1000);
  setInterval(() => readOwn().catch(() => {}), OWN_MS);
}

// None for the link of a demo that has ended: another may have come in its place.
async function theMap(seq) {
  try {
    return (await get(`/events/${seq}`)).event.data;
  } catch (error) {
    if (error.status === 401 || error.status === 404) return null;
    throw error;
  }
}

function withoutDemo() {
  document.body.classList.add("without");
  show($(".lead p"), "This page shows a running demo, and was opened without one, or by the link of one that has ended. Start it with ", h("code", {}, "germane demo"), ", and open the address that it prints: that brings its token along.");
}

let lastDelivery = -1;
let reachKnownFrom = Infinity; // of messages before this seq, who got them is not known here, or not yet

// What was delivered before the page was opened, as far as messages of then are shown; from which
// seq on it is known.
async function readPast() {
  const { next } = await get("/deliveries?after=-1&limit=1");
  lastDelivery = next;
  const oldest = Math.min(...[...news.keys()].sort((a, b) => b - a).slice(0, NEWS));
  for (let to = next; to > 0; to -= PAST_PAGE) {
    const from = Math.max(0, to - PAST_PAGE);
    const { deliveries } = await get(`/deliveries?after=${from}&limit=${to - from}`);
    for (const each of deliveries) note(each);
    const first = deliveries.find((each) => !each.items)?.seq; // a digest has older ones
    if (!deliveries.length || first < oldest) return 0; // who got what is shown is known
    if (next - from >= PAST) return (first ?? oldest) + 1;
  }
  return 0;
}

// The last thing that somebody got.
async function readLast(person) {
  const path = `/deliveries?subscriber=${encodeURIComponent(person.id)}&limit=1`;
  const { next } = await get(`${path}&after=-1`);
  const { deliveries } = await get(`${path}&after=${Math.max(0, next - 1)}`);
  for (const each of deliveries) got(person, each);
}

function got(person, delivery) {
  const at = Date.parse(delivery.released ?? delivery.at);
  if (at >= (person.lastAt ?? 0)) Object.assign(person, { last: delivery.event ? headline(delivery.event) : "a digest", lastAt: at });
}

// The client itself, in a frame: it keeps its own session, so the two do not mix.
function openPhone() {
  if (!ownToken) return;
  const link = `./#token=${encodeURIComponent(ownToken)}`;
  $("#inbox-link").href = link;
  $("#inbox-link").target = "_blank";
  $("#console-link").href = "console";
  const phone = $("#phone");
  const open = () => {
    if (!phone.src && matchMedia("(min-width: 72rem)").matches) {
      phone.src = link;
      phone.hidden = false;
    }
  };
  open();
  addEventListener("resize", open);
}

async function readContext(id) {
  const { values } = await get(`/contexts/${id}`);
  take({ seq: 0, event: { type: "germane.context.put", subject: id, data: values } });
}

// The log ------------------------------------------------------------------------------------------

async function readNews() {
  takeAll(await pastEvents());
  reachKnownFrom = await readPast();
  drawNews();
}

async function poll() {
  try {
    takeAll(await newEvents());
  } catch (error) {
    if (error.status === 401) return toast("This demo has ended. Start it again.");
  }
  setTimeout(poll, POLL_MS);
}

function takeAll(events) {
  for (const each of [...events].reverse()) if (each.seq > seen) take(each);
  seen = Math.max(seen, events[0]?.seq ?? 0);
}

// The log is read from its end: so many as came last time and some more, then what is missing.
let came = 0;
async function newEvents() {
  const found = [];
  do {
    const limit = Math.min(MANY, Math.max(FEW, Math.ceil(1.3 * came), 2 * found.length));
    const { events } = await get(`/events?limit=${limit}${found.length ? `&before=${found.at(-1).seq}` : ""}`);
    found.push(...events);
    if (events.length < limit) break;
  } while (found.at(-1).seq > seen && found.length < MANY);
  came = found.filter(({ seq }) => seq > seen).length;
  return found;
}

// The last events, so far back that there are messages to show.
async function pastEvents() {
  const found = [];
  for (let k = 0; k < EVENTS_PAGES; k += 1) {
    const { events } = await get(`/events?limit=${EVENTS_PAGE}${found.length ? `&before=${found.at(-1).seq}` : ""}`);
    found.push(...events);
    const messages = found.filter(({ event }) => !event.type.startsWith("germane.context.")).length;
    if (!events.length || messages > NEWS) break;
  }
  return found;
}

function take({ seq, at, event }) {
  if (event.type === "germane.context.patch" || event.type === "germane.context.put") {
    const { position, task, place } = data(event);
    const person = named.get(event.subject);
    if (person) Object.assign(person, task !== undefined && { task }, place !== undefined && { place });
    if (event.subject === YOU) yourChange(position, task, place);
    town.move(event.subject, position, task !== undefined && (person || event.subject === YOU) ? { task } : {});
    return;
  }
  if (event.type === "demo.map" || news.has(seq)) return;
  news.set(seq, { event, at, reached: early.get(seq) ?? new Map() });
  if (seen) {
    town.announce(seq, data(event).position, headline(event));
    for (const id of news.get(seq).reached.keys()) town.reach(seq, id);
  }
  early.delete(seq);
  while (news.size > KEPT) news.delete(news.keys().next().value);
  drawNews();
}

const early = new Map(); // deliveries of messages that this page has not read yet

function delivered(event) {
  lastDelivery = Number(event.id);
  const delivery = JSON.parse(event.data);
  note(delivery);
  for (const { seq } of delivery.items ?? [delivery]) if (news.has(seq)) town.reach(seq, delivery.subscriber);
  const person = named.get(delivery.subscriber);
  if (person) got(person, delivery);
  drawSoon();
}

function note(delivery) {
  for (const { seq } of delivery.items ?? [delivery]) {
    const reached = news.get(seq)?.reached ?? early.get(seq) ?? new Map();
    reached.set(delivery.subscriber, delivery.id);
    if (!news.has(seq)) early.set(seq, reached);
    if (early.size > 500) early.delete(early.keys().next().value);
  }
}

let drawing = false;
function drawSoon() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => {
    drawing = false;
    drawNews();
    drawPeople();
  }, 150);
}

// In words ----------------------------------------------------------------------------------------

// What anybody publishes need not look like the town's news: the words are those of the client.
const data = (event) => (event.data && typeof event.data === "object" ? event.data : {});
const words = (value) => (value && typeof value === "object" ? JSON.stringify(value) : String(value ?? ""));

function headline(event) {
  const { title, headline: head, name, summary } = data(event);
  return words(title ?? head ?? name ?? summary ?? event.subject) || `${event.type ?? "message"} ${event.id ?? ""}`;
}

const lines = new Map(); // seq -> {item, update}
let held = null; // while a "why?" is open: the seqs that the list holds

// What is read stays where it is: new messages wait, and are counted.
function drawNews() {
  const list = $("#news");
  if (!$("details[open]", list)) held = null;
  else held ??= [...lines].filter(([, each]) => each.item.isConnected).map(([seq]) => seq);
  const waiting = held ? [...news.keys()].filter((seq) => seq > Math.max(...held)).length : 0;
  const bar = $("#more-news");
  if (waiting) bar.textContent = `${waiting < KEPT / 2 ? number(waiting) : "Many"} new: show`;
  bar.hidden = !waiting;
  if (held) return held.forEach((seq) => lines.get(seq).update());
  const wanted = [...news.entries()].sort((a, b) => b[0] - a[0]).slice(0, NEWS);
  for (const [seq, message] of wanted) {
    if (!lines.has(seq)) lines.set(seq, line(seq, message));
    lines.get(seq).update();
  }
  const items = wanted.map(([seq]) => lines.get(seq).item);
  for (const child of [...list.children]) if (!items.includes(child)) child.remove();
  items.forEach((item, k) => {
    if (list.children[k] !== item) list.insertBefore(item, list.children[k] ?? null);
  });
  for (const seq of lines.keys()) if (!news.has(seq)) lines.delete(seq);
  openSaid();
}

function showNew() {
  for (const open of document.querySelectorAll("#news details[open]")) open.open = false;
  drawNews();
  $("#news summary")?.focus();
}

function line(seq, message) {
  const { topic, place } = data(message.event);
  const who = h("span", { class: "who" });
  const verdicts = h("ul", { class: "verdicts" }, h("li", {}, "…"));
  const details = h("details", { ontoggle: () => (details.open && explain(seq, message, verdicts), drawNews()) },
    h("summary", {}, h("span", { class: "title" }, headline(message.event)), last(topic) && h("span", { class: "chip" }, last(topic)), who), verdicts);
  let written = null;
  return {
    item: h("li", {}, details),
    update() {
      const ids = [...message.reached.keys()];
      const known = ids.filter((id) => named.has(id) || id === YOU).map((id) => named.get(id)?.label ?? "you");
      const others = ids.length - known.length;
      const now = JSON.stringify([known, others, seq < reachKnownFrom]);
      if (now === written) return;
      written = now;
      show(who, last(place) ? `${last(place)} · ` : "", seq < reachKnownFrom ? "" : [reachedWords(known, others), " · "], "why?");
    },
  };
}

const last = (value) => words([value].flat().at(-1)); // of a path in a graph

function reachedWords(known, others) {
  if (!known.length && !others) return "reached nobody";
  const more = others && `${number(others)} ${known.length ? (others === 1 ? "other" : "others") : others === 1 ? "person" : "people"}`;
  return ["reached ", known.length ? h("b", {}, known.join(", ")) : null, known.length && others ? " and " : null, more || null];
}

// Why: you first, then some who got it, then some who did not.
async function explain(seq, { reached }, place) {
  if (!reached.has(YOU)) await readOwn().catch(() => {}); // the phone may have asked for more
  const got = [...reached.keys()].filter((id) => id !== YOU).sort((a, b) => named.has(b) - named.has(a));
  const missed = [...named.keys()].filter((id) => !reached.has(id));
  const shown = [YOU, ...got.slice(0, GOT), ...missed.slice(0, Math.max(MISSED, SHOWN - got.length))];
  const found = await Promise.all(shown.map((id) => (id === YOU && !reached.has(id) ? yourVerdict(seq) : verdict(id, seq, reached.get(id)))));
  show(place, found.map((each, k) => verdictLine(shown[k], each)),
    got.length > GOT && h("li", { class: "soft" }, `${plural(got.length - GOT, "other person", "other people")} got it, too.`));
}

async function verdict(id, seq, delivery, subscription = named.get(id)?.subscription) {
  try {
    const answer = await get(delivery
      ? `/deliveries/${delivery}/explanation?message=${seq}`
      : `/subscriptions/${encodeURIComponent(subscription)}/explanation?message=${seq}`);
    return answer.subscriptions.find((s) => s.matched) ?? answer.subscriptions[0];
  } catch (error) {
    return { error: error.message, matched: Boolean(delivery) };
  }
}

// Of what you asked for: what came nearest.
async function yourVerdict(seq) {
  const found = await Promise.all([...asked.values()].flat().slice(0, 4).map((id) => verdict(YOU, seq, null, id)));
  const holds = (each) => (each.steps ?? []).filter((s) => s.truth === true).length;
  return found.sort((a, b) => holds(b) - holds(a))[0] ?? { error: "asked for nothing yet" };
}

function verdictLine(id, { matched = false, condition = "", steps = [], error }) {
  const name = id === YOU ? "You" : named.get(id)?.label ?? WALKER;
  const lacking = matched ? null : steps.find((s) => s.truth !== true);
  return h("li", {}, h("span", { class: matched ? "yes" : "no", "aria-label": matched ? "got it" : "did not get it" }, matched ? "✓" : "✗"),
    h("span", { class: "strong" }, name),
    h("span", {}, error ?? (lacking ? [h("code", {}, lacking.text), values(lacking)] : `“${describe(condition)}”`)));
}

function values(step) {
  if (step.truth === true || step.left === undefined || step.left === null) return "";
  return h("span", { class: "soft" }, ` — ${plain(step.left)}${step.right === undefined || step.right === null ? "" : ` against ${plain(step.right)}`}`);
}

function drawPeople() {
  show($("#people"), [...named.values()].map((person) => {
    const fresh = person.lastAt && Date.now() - person.lastAt < 4000;
    const face = h("span", { class: "face", "aria-hidden": "true" }, person.label[0]);
    face.style.setProperty("--face", FACES[person.number % FACES.length]);
    return h("li", {}, face,
      h("p", {}, h("span", { class: "strong" }, person.label), h("span", { class: "soft" }, ` ${person.says}`)),
      h("p", { class: "small" }, h("span", { class: "chip" }, person.task ?? "…"), " ", h("span", { class: "chip" }, [person.place].flat()[0] ?? "…")),
      h("p", { class: `last${fresh ? " fresh" : ""}` }, person.last ? `${person.last}` : "nothing yet", person.lastAt ? h("span", { class: "soft small" }, ` ${ago(person.lastAt)}`) : ""));
  }));
}

// The first messages wait while the filter is made ready: that is no figure to go by.
function delay(ms) {
  if (!ms) return null;
  if (ms > CATCHING_UP_MS) return h("span", {}, "catching up …");
  return h("span", {}, "message to inbox ", h("b", {}, `${number(ms)} ms`));
}

async function figures() {
  try {
    const s = await get("/stats");
    show($("#figures"), [[s.subscribers, "people"], [s.subscriptions, "subscriptions"], [s.rates?.events, "events a second"], [s.deliveries, "deliveries"]]
      .map(([value, label]) => h("span", {}, h("b", {}, number(value)), ` ${label}`)),
    delay(s.latency_ms?.p50));
  } catch {
    $("#figures").textContent = "The service does not answer.";
  }
}

// You ---------------------------------------------------------------------------------------------

const patch = (values) => call("PATCH", `/agents/${YOU}/context`, values).catch((error) => toast(error.message));

function you() {
  const walk = $("#walk");
  walk.append(h("option", { value: "" }, "…"), ...Object.entries(map.districts).map(([district, venues]) =>
    h("optgroup", { label: district }, Object.keys(venues).map((venue) => h("option", { value: venue }, venue)))));
  walk.addEventListener("change", () => {
    const district = Object.keys(map.districts).find((d) => walk.value in map.districts[d]);
    if (district) go(...map.districts[district][walk.value], district);
  });
  $("#task").append(...TASKS.map((task) => h("option", { value: task }, task)));
  $("#task").addEventListener("change", (e) => patch({ task: e.target.value }));
  $("#map").addEventListener("click", (e) => {
    const position = town.degrees(e.offsetX, e.offsetY);
    const [x, y] = town.metres(position);
    go(x, y, nearest(x, y).district);
  });
}

// What the fields beside the map say follows the log, and so does the phone.
function yourChange(position, task, place) {
  for (const [name, value] of Object.entries({ position, place })) if (value !== undefined) yours[name] = value ?? undefined;
  if (task !== undefined) $("#task").value = task ?? "";
  if (isPlace(position)) {
    const { venue, distance } = nearest(...town.metres(position));
    $("#walk").value = distance < AT_M ? venue : "";
  }
  $("#phone").contentWindow?.postMessage("germane:context", location.origin);
}

function nearest(x, y) {
  let best = { distance: Infinity };
  for (const [district, venues] of Object.entries(map.districts))
    for (const [venue, [vx, vy]] of Object.entries(venues)) {
      const distance = Math.hypot(x - vx, y - vy);
      if (distance < best.distance) best = { distance, venue, district };
    }
  return best;
}

async function go(x, y, district) {
  const position = town.degrees(...town.pixels(x, y));
  town.move(YOU, position, {});
  await patch({ position, place: district });
  toast(`You are at the ${district} now`);
}

// What you say is a message like any other, from where you are.
const yours = {}; // where that is
let said = null; // the seq of what you said, until its "why?" is opened

async function prepareToSay() {
  const { edges } = await get("/graphs/topic");
  const roots = new Set(edges.map(([above]) => above));
  for (const [, below] of edges) roots.delete(below);
  const topics = [...new Set(edges.flat())].filter((topic) => !roots.has(topic)).sort();
  $("#about").append(...topics.map((topic) => h("option", { selected: topic === FIRST_TOPIC }, topic)));
  $("#say").addEventListener("submit", (e) => {
    e.preventDefault();
    say($("#said").value.trim(), $("#about").value).catch((error) => toast(error.message));
  });
}

async function say(title, topic) {
  if (!title) return;
  const event = { specversion: "1.0", id: `said-${Date.now()}`, source: "/you", type: "news", data: { title, topic: [topic], ...yours } };
  const { last: seq } = await call("POST", "/events", [event], BATCH);
  said = seq;
  $("#said").value = "";
  for (const open of document.querySelectorAll("#news details[open]")) open.open = false;
  drawNews();
}

function openSaid() {
  const item = lines.get(said)?.item;
  if (!item) return;
  said = null;
  setTimeout(() => {
    $("details", item).open = true;
  }, REACH_MS);
}

let drawnAsks = null;
async function readOwn() {
  const { subscriptions } = await get(`/subscriptions?subscriber=${YOU}&limit=100`);
  asked = new Map();
  for (const { condition, id, state } of subscriptions) if (state === "active") asked.set(condition, [...(asked.get(condition) ?? []), id]);
  const now = JSON.stringify(ASKS.map(([, condition]) => asked.has(condition)));
  if (now === drawnAsks) return; // nothing changes under the pointer
  drawnAsks = now;
  const presets = ASKS.map(([title, condition]) => {
    const has = asked.has(condition);
    return h("button", { "aria-pressed": String(has), onclick: () => ask(title, condition, !has) }, title);
  });
  redraw($("#asks"), presets, h("button", { class: "primary", onclick: own }, "Something of your own…"));
}

// The guided editor: on the phone beside the map, or where there is no room for it, in the inbox.
function own() {
  const phone = $("#phone");
  if (phone.hidden) return open(`./#token=${encodeURIComponent(ownToken)}&to=subscriptions/new`, "_blank", "noopener");
  phone.contentWindow.location.hash = "#subscriptions/new";
  phone.focus();
  toast("Write it on your phone: add a line, see what it would have brought, subscribe.");
}

// Ask for something, or end it; what the phone has done meanwhile is not done again.
async function ask(title, condition, wanted) {
  try {
    await readOwn();
    if (asked.has(condition) === wanted) return toast(wanted ? `You have asked for it already: ${title}` : `It has ended already: ${title}`);
    if (wanted) await call("POST", "/subscriptions", { condition, subscriber: YOU, context: YOU });
    else for (const id of asked.get(condition)) await call("DELETE", `/subscriptions/${encodeURIComponent(id)}`);
    toast(wanted ? `You asked for: ${title}. Watch your inbox.` : `Ended: ${title}`);
  } catch (error) {
    toast(error.message);
  }
  await readOwn().catch(() => {});
}

begin().catch((error) => toast(error.message));
