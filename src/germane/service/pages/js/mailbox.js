// Deliveries as the client has them: loaded from the store, followed live, changed by feedback.
// A change is told to whoever listens to "change"; what cannot be sent now waits in the outbox.

import { Problem, call, follow, session } from "./api.js";
import { facets } from "./now.js";
import * as store from "./store.js";

export const mailbox = new EventTarget();
export const items = new Map(); // id -> delivery, with `marks`: opened, kept, gone, less
export const subscriptions = new Map(); // id -> subscription, as far as they were read
export const read = { times: 0 }; // how often subscriptions were read: why-lines follow

const RETRY_MS = 3000;
const LATER_MS = [3000, 10_000, 30_000]; // on a busy service
const FRESH_MS = 5000; // so long after a press the service knows the context better than this page
const TOLD = { read: "opened", unkept: "undone", restored: "undone" }; // as the agent calls it
let following = null;
let flushing = false;
let asked = false;
let again = null; // a timer: what could not be sent is tried again

export async function load() {
  for (const item of await store.deliveries()) items.set(item.id, item);
  for (const each of (await store.read("subscriptions")) ?? []) subscriptions.set(each.id, each);
  tell();
}

export async function start(onState) {
  stop();
  following = new AbortController();
  addEventListener("online", sendWaiting);
  sendWaiting();
  readSubscriptions().catch(() => {});
  await follow(`/deliveries/stream?subscriber=${encodeURIComponent(session.subject)}`, {
    after: store.cursor,
    signal: following.signal,
    onState: (state, error) => {
      onState(state, error);
      if (state === "live") sendWaiting();
    },
    onEvent: async (event) => {
      if (event.event !== "delivery") return;
      const delivery = JSON.parse(event.data);
      if (items.has(delivery.id)) return;
      delivery.marks = {};
      await store.receive(delivery);
      items.set(delivery.id, delivery);
      if (items.size % 50 === 0) store.prune();
      if ((delivery.subscriptions ?? []).some((id) => !subscriptions.has(id))) readSubscriptions().catch(() => {});
      tell(delivery.id);
    },
  });
}

export function stop() {
  following?.abort();
  removeEventListener("online", sendWaiting);
}

// After a change, with the service's answer to it: where that is not applied yet, again a little later.
export async function readSubscriptions(change) {
  if (change?.applied === false) for (const ms of LATER_MS) setTimeout(() => readSubscriptions().catch(() => {}), ms);
  const found = [];
  let after = "";
  do {
    const page = await call("GET", `/subscriptions?subscriber=${encodeURIComponent(session.subject)}&limit=100${after}`);
    found.push(...page.subscriptions);
    after = page.next ? `&after=${encodeURIComponent(page.next)}` : null;
  } while (after && found.length < 1000);
  const because = found.some((s) => s.id.startsWith("agent-")) ? await reasons() : new Map();
  subscriptions.clear();
  for (const each of found) subscriptions.set(each.id, because.has(each.id) ? { ...each, because: because.get(each.id) } : each);
  read.times += 1;
  await store.write("subscriptions", [...subscriptions.values()]);
  tell();
  return [...subscriptions.values()];
}

// Why the user agent made its subscriptions.
async function reasons() {
  const known = await call("GET", `/agents/${encodeURIComponent(session.subject)}`).catch(() => ({ subscriptions: [] }));
  return new Map(known.subscriptions.map((s) => [s.id, s.because]));
}

// Mark a delivery and let the user agent learn from it. `signal`: opened (then, when it is left,
// read with its seconds), kept, unkept, dismissed, restored, less.
export async function give(item, signal, more = {}) {
  const at = Date.now() / 1000; // when and where it was pressed: it may be sent much later
  const context = facets();
  const marks = { ...item.marks };
  if (signal === "opened") marks.opened = true;
  if (signal === "kept" || signal === "unkept") marks.kept = signal === "kept";
  if (signal === "dismissed" || signal === "less") Object.assign(marks, { gone: true, less: signal === "less" });
  if (signal === "restored") Object.assign(marks, { gone: false, less: false });
  item.marks = marks;
  await store.change(item);
  tabs.postMessage([item.id, marks]);
  tell();
  if (signal === "opened") return; // it is told when it is left, with its seconds
  await store.post({ delivery: item.id, signal: TOLD[signal] ?? signal, ...more, at, context });
  await sendWaiting();
}

async function sendWaiting() {
  if (!session.token) return;
  asked = true; // what is posted while others are being sent needs another round
  if (flushing) return;
  flushing = true;
  clearTimeout(again);
  try {
    while (asked) {
      asked = false;
      if (!(await store.flush(send))) {
        again = setTimeout(sendWaiting, RETRY_MS);
        break;
      }
    }
  } finally {
    flushing = false;
  }
}

// What is marked in another tab of this browser is marked here, too.
const tabs = new BroadcastChannel("germane.marks");
tabs.addEventListener("message", ({ data: [id, marks] }) => {
  if (!items.has(id)) return;
  items.get(id).marks = marks;
  tell();
});

// Whether an item is done with: sent, or refused for good.
async function send(item) {
  try {
    const told = await teach(item);
    mailbox.dispatchEvent(new CustomEvent("learned", { detail: { ...told, signal: item.signal, delivery: item.delivery } }));
    return true;
  } catch (error) {
    return error instanceof Problem && error.status < 500 && error.status !== 429 && error.status !== 401;
  }
}

async function teach(item) {
  const path = `/agents/${encodeURIComponent(session.subject)}/feedback`;
  const { context, ...rest } = item;
  const fresh = Math.abs(Date.now() / 1000 - item.at) < FRESH_MS / 1000;
  try {
    return await call("POST", path, fresh ? rest : item);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 422 || item.at === undefined) throw error;
    const { at, ...timeless } = fresh ? rest : item; // this device's clock may be ahead
    return call("POST", path, timeless);
  }
}

function tell(arrived = null) {
  mailbox.dispatchEvent(new CustomEvent("change", { detail: { arrived } }));
}

// What a message is, for people.

export const event = (item) => item.event ?? item.items?.at(-1)?.event ?? {};
const data = (e) => (e.data && typeof e.data === "object" ? e.data : {});
const text = (value) => (Array.isArray(value) ? value.join(", ") : value === null || value === undefined ? "" : String(value));

export function headline(e) {
  const d = data(e);
  return text(d.title ?? d.headline ?? d.name ?? d.summary ?? e.subject) || `${e.type ?? "message"} ${e.id ?? ""}`;
}

export function facts(e) {
  const d = data(e);
  return [text(d.feed ?? d.author ?? e.source), text(d.topic ?? e.type), text(d.place ?? d.venue)].filter(Boolean);
}

export const summary = (e) => text(data(e).summary ?? data(e).text ?? data(e).description);
export const address = (e) => text(data(e).link ?? data(e).url);
