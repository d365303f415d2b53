// The demo page. All it shows comes from the service's API, read with an operator's token: the log
// of events (who moved, what was said), the stream of deliveries, explanations, figures.

import { call, follow, get, keep, session, takeToken } from "./api.js";
import { $, ago, h, number, show, toast } from "./dom.js";
import { FACES, Town } from "./town.js";

const POLL_MS = 500;
const NEWS = 14;
const CATCHING_UP_MS = 2000;
const TASKS = ["leisure", "work", "meeting", "lunch", "sport"];
const ASKS = [
  ["Food near me", "topic WITHIN 'Food' AND DISTANCE(position, context.position) <= 800"],
  ["Whatever happens where I am", "DISTANCE(position, context.position) <= 500"],
  ["Music, but not at work", "topic WITHIN 'Music' AND NOT context.task IN ('work', 'meeting')"],
  ["Sports", "topic WITHIN 'Sports'"],
];
const YOU = "you";
const named = new Map(); // id -> {label, number, says, subscription, last, lastAt}
const news = new Map(); // seq -> {event, at, reached: Set}
let town;
let map;
let seen = 0;
let asked = new Map(); // condition -> id of your subscriptions
let ownToken = null;

async function begin() {
  const given = new URLSearchParams(location.hash.slice(1));
  const kept = JSON.parse(sessionStorage.getItem("germane.demo") ?? "{}");
  const setup = given.get("token") ? { map: given.get("map"), you: given.get("you") } : kept;
  sessionStorage.setItem("germane.demo", JSON.stringify(setup));
  takeToken();
  ownToken = setup.you;
  if (!session.token || !setup.map) return $(".lead p").replaceChildren("This page needs a running demo: start it with ", h("code", {}, "germane demo"), " and open the address that it prints.");
  map = (await get(`/events/${setup.map}`)).event.data;
  town = new Town($("#map"), map);
  map.people.forEach((person, k) => {
    named.set(person.id, { ...person, number: k });
    town.move(person.id, null, { named: true, label: person.label, number: k });
  });
  town.move(YOU, null, { you: true, label: "you" });
  openPhone();
  you();
  await Promise.all([readOwn(), ...[...named.keys(), YOU].map(readContext)]);
  await poll();
  drawPeople();
  follow("/deliveries/stream", { after: () => lastDelivery, signal: new AbortController().signal, onState: () => {}, onEvent: delivered });
  figures();
  setInterval(figures, 2000);
  setInterval(drawPeople, 1000);
}

let lastDelivery = -1;

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

async function poll() {
  try {
    const { events } = await get(`/events?limit=${seen ? 200 : 1000}`);
    for (const each of events.reverse()) if (each.seq > seen) take(each);
    seen = Math.max(seen, events.at(-1)?.seq ?? 0);
  } catch (error) {
    if (error.status === 401) return toast("This demo has ended. Start it again.");
  }
  setTimeout(poll, POLL_MS);
}

function take({ seq, at, event }) {
  if (event.type === "germane.context.patch" || event.type === "germane.context.put") {
    const { position, task, place } = event.data;
    const person = named.get(event.subject);
    if (person) Object.assign(person, task !== undefined && { task }, place !== undefined && { place });
    if (event.subject === YOU && task !== undefined) $("#task").value = task ?? "";
    town.move(event.subject, position, task !== undefined && (person || event.subject === YOU) ? { task } : {});
    return;
  }
  if (event.type === "demo.map" || news.has(seq)) return;
  news.set(seq, { event, at, reached: early.get(seq) ?? new Set() });
  if (seen) town.announce(seq, event.data.position, event.data.title);
  for (const id of news.get(seq).reached) town.reach(seq, id);
  early.delete(seq);
  while (news.size > 60) news.delete(news.keys().next().value);
  drawNews();
}

const early = new Map(); // deliveries of messages that this page has not read yet

async function delivered(event) {
  lastDelivery = Number(event.id);
  const delivery = JSON.parse(event.data);
  for (const { seq } of delivery.items ?? [delivery]) {
    const known = news.get(seq);
    if (known) known.reached.add(delivery.subscriber);
    else early.set(seq, (early.get(seq) ?? new Set()).add(delivery.subscriber));
    if (early.size > 500) early.delete(early.keys().next().value);
    if (known) town.reach(seq, delivery.subscriber);
    const person = named.get(delivery.subscriber);
    if (person) Object.assign(person, { last: delivery.event?.data?.title, lastAt: Date.now() });
  }
  drawSoon();
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

const lines = new Map(); // seq -> {item, who}

function drawNews() {
  const list = $("#news");
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
}

function line(seq, message) {
  const data = message.event.data;
  const who = h("span", { class: "who" });
  const verdicts = h("ul", { class: "verdicts" }, h("li", {}, "…"));
  const details = h("details", { ontoggle: () => details.open && explain(seq, verdicts) },
    h("summary", {}, h("span", { class: "title" }, data.title), h("span", { class: "chip" }, [data.topic].flat().at(-1) ?? ""), who), verdicts);
  let written = null;
  return {
    item: h("li", {}, details),
    update() {
      const ids = [...message.reached];
      const known = ids.filter((id) => named.has(id) || id === YOU).map((id) => named.get(id)?.label ?? "you");
      const others = ids.length - known.length;
      const words = JSON.stringify([known, others]);
      if (words === written) return;
      written = words;
      const place = [data.place].flat().at(-1);
      show(who, `${place ? `${place} · ` : ""}`, ids.length
        ? ["reached ", known.length ? h("b", {}, known.join(", ")) : null, known.length && others ? " and " : "", others ? `${number(others)} ${known.length ? (others === 1 ? "other" : "others") : others === 1 ? "person" : "people"}` : ""]
        : "reached nobody", " · why?");
    },
  };
}

async function explain(seq, place) {
  const found = await Promise.all([...named.values()].map(async (person) => {
    try {
      return [person, (await get(`/subscriptions/${encodeURIComponent(person.subscription)}/explanation?message=${seq}`))];
    } catch (error) {
      return [person, { error: error.message }];
    }
  }));
  show(place, found.map(([person, answer]) => {
    const verdict = answer.subscriptions?.[0] ?? answer;
    const steps = verdict.steps ?? verdict.conjunctions?.flat() ?? [];
    const decisive = verdict.matched ? steps : steps.filter((s) => s.truth !== true).slice(0, 1);
    return h("li", {}, h("span", { class: verdict.matched ? "yes" : "no", "aria-label": verdict.matched ? "got it" : "did not get it" }, verdict.matched ? "✓" : "✗"),
      h("span", { class: "strong" }, person.label),
      h("span", {}, answer.error ?? decisive.map((s, k) => [k ? ", " : "", h("code", {}, s.text), values(s)])));
  }));
}

function values(step) {
  const flat = (v) => (v === null || v === undefined ? "nothing" : Array.isArray(v) ? v.join(", ") : typeof v === "object" ? Object.values(v).map(flat).join(" / ") : String(v));
  if (step.truth === true || step.left === undefined || step.left === null || String(step.text).startsWith("DISTANCE")) return "";
  return h("span", { class: "soft" }, ` — ${flat(step.left)}${step.right === undefined || step.right === null ? "" : ` against ${flat(step.right)}`}`);
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
    go(x, y, nearest(x, y));
  });
}

function nearest(x, y) {
  let best = [Infinity, null];
  for (const [district, venues] of Object.entries(map.districts))
    for (const [vx, vy] of Object.values(venues)) {
      const distance = Math.hypot(x - vx, y - vy);
      if (distance < best[0]) best = [distance, district];
    }
  return best[1];
}

async function go(x, y, district) {
  const position = town.degrees(...town.pixels(x, y));
  town.move(YOU, position, {});
  await patch({ position, place: district });
  toast(`You are at the ${district} now`);
}

async function readOwn() {
  const { subscriptions } = await get(`/subscriptions?subscriber=${YOU}&limit=100`);
  asked = new Map(subscriptions.filter((s) => s.state === "active").map((s) => [s.condition, s.id]));
  const presets = ASKS.map(([title, condition]) => {
    const id = asked.get(condition);
    return h("button", { "aria-pressed": String(Boolean(id)), onclick: () => ask(title, condition, id) }, title);
  });
  show($("#asks"), presets, h("button", { class: "primary", onclick: own }, "Something of your own…"));
}

// The guided editor: on the phone beside the map, or where there is no room for it, in the inbox.
function own() {
  const phone = $("#phone");
  if (phone.hidden) return $("#inbox-link").click();
  phone.contentWindow.location.hash = "#subscriptions/new";
  phone.focus();
  toast("Write it on your phone: add a line, see what it would have brought, subscribe.");
}

async function ask(title, condition, id) {
  try {
    if (id) await call("DELETE", `/subscriptions/${encodeURIComponent(id)}`);
    else await call("POST", "/subscriptions", { condition, subscriber: YOU, context: YOU });
    toast(id ? `Ended: ${title}` : `You asked for: ${title}. Watch your inbox.`);
    await readOwn();
  } catch (error) {
    toast(error.message);
  }
}

begin().catch((error) => toast(error.message));
