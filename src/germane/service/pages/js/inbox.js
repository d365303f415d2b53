// The inbox: what arrived, why, and what you think of it.

import { get } from "./api.js";
import { describe, plain } from "./conditions.js";
import { $, ago, clock, h, icon, plural, safeLink, show, toast } from "./dom.js";
import { address, event, facts, give, headline, items, mailbox, read, subscriptions, summary } from "./mailbox.js";
import { nowLine } from "./now.js";

const SHOWN = 100;
const RETRY_MS = 3000;
let open = null; // the id of the item that is read, and since when
let since = 0;
let kept = false; // only what was kept

export const unseen = () => [...items.values()].filter((i) => !i.marks?.opened && !i.marks?.gone).length;

export function inbox(main) {
  const list = h("ul", { class: "plain stack", "aria-label": "Deliveries" });
  const bar = h("button", { class: "primary", hidden: true, onclick: () => letIn(true) });
  const news = h("p", { class: "visually-hidden", "aria-live": "polite" });
  const gone = new AbortController();
  const line = nowLine(gone.signal);
  const chosen = h("button", { class: "quiet", "aria-pressed": String(kept), onclick: () => {
    kept = !kept;
    chosen.setAttribute("aria-pressed", String(kept));
    draw();
  } }, icon("keep"), "Kept");
  show(main, h("div", { class: "stack narrow" },
    h("div", { class: "row spread" }, h("h1", {}, "Inbox"), chosen), line, news, h("div", { class: "newbar" }, bar), list));
  const cards = new Map(); // id -> [state, card]: a card is drawn again only if it changed
  let newest = 0; // what arrives while the list is in use waits, so that nothing moves under it
  const inUse = () => list.querySelector(".item") && (list.matches(":hover") || bar.matches(":hover") || (document.hasFocus() && list.contains(document.activeElement)));
  const draw = (arrived) => {
    const all = [...items.values()].filter((i) => !i.marks?.gone && (!kept || i.marks?.kept)).sort((a, b) => b.id - a.id);
    if (!inUse() || !all.some((i) => i.id <= newest)) newest = all[0]?.id ?? 0;
    const now = all.filter((i) => i.id <= newest).slice(0, kept ? undefined : SHOWN);
    const held = all.filter((i) => i.id > newest).length;
    bar.hidden = !held;
    bar.textContent = `${held} new`;
    const wanted = now.map((item) => {
      const state = JSON.stringify([item.marks, open === item.id, read.times]);
      if (cards.get(item.id)?.[0] !== state) cards.set(item.id, [state, card(item, () => draw())]);
      return cards.get(item.id)[1];
    });
    const [pressed, at] = focusOf(list);
    place(list, wanted);
    if (pressed && !list.contains(document.activeElement)) buttons(cards.get(pressed)?.[1])[at]?.focus({ preventScroll: true });
    if (!now.length) show(list, empty());
    if (arrived && items.has(arrived)) {
      cards.get(arrived)?.[1].classList.add("arriving");
      news.textContent = `New: ${headline(event(items.get(arrived)))}`;
    }
  };
  const letIn = (asked) => {
    if (bar.hidden || (!asked && inUse())) return;
    newest = Math.max(...items.keys());
    draw();
    if (asked) scrollTo({ top: 0 });
    if (asked) list.querySelector("h3 button")?.focus({ preventScroll: true });
  };
  const later = () => setTimeout(() => letIn(false), 200);
  for (const each of [list, bar]) each.addEventListener("pointerleave", later);
  list.addEventListener("focusout", later);
  const listen = (e) => draw(e.detail.arrived);
  mailbox.addEventListener("change", listen);
  mailbox.addEventListener("learned", learned);
  const timer = setInterval(() => {
    for (const each of list.querySelectorAll("time")) each.textContent = ago(each.dateTime);
  }, 30000);
  draw();
  return () => {
    leaveItem();
    gone.abort();
    clearInterval(timer);
    mailbox.removeEventListener("change", listen);
    mailbox.removeEventListener("learned", learned);
  };
}

// Where the keyboard is, by item and number of the button: a card that is drawn again, since more is
// known of what brought it, keeps the focus.
const buttons = (card) => [...(card?.querySelectorAll("button") ?? [])];
function focusOf(list) {
  const focused = list.querySelector("[data-id] button:focus-visible");
  const card = focused?.closest("[data-id]");
  return card ? [Number(card.dataset.id), buttons(card).indexOf(focused)] : [null, -1];
}

// Bring the list's children to `wanted` without touching those that stay: focus survives.
function place(list, wanted) {
  const keepers = new Set(wanted);
  for (const child of [...list.children]) if (!keepers.has(child)) child.remove();
  wanted.forEach((card, k) => {
    if (list.children[k] !== card) list.insertBefore(card, list.children[k] ?? null);
  });
}

// "Less like this" of what one asked for oneself: the agent does not overrule that.
function learned(e) {
  const own = e.detail.own?.find((id) => subscriptions.has(id));
  const item = items.get(e.detail.delivery);
  if (e.detail.signal === "less" && own && item?.marks.less)
    toast("Noted. A subscription of yours brought it.", { label: "Edit it", run: () => (location.hash = `#subscriptions/${encodeURIComponent(own)}`) }, undo(item));
}

const undo = (item) => ({ label: "Undo", run: () => give(item, "restored") });

const empty = () =>
  h("li", { class: "empty" },
    h("p", { class: "strong" }, kept ? "Nothing kept yet" : "Nothing here yet"),
    h("p", {}, kept ? "Keep a message, and it stays here." : "Messages appear here the moment they match what you asked for, and how you are just now."),
    !kept && h("p", {}, h("a", { class: "button primary", href: "#subscriptions/new" }, icon("plus"), "New subscription")));

function card(item, draw) {
  const e = event(item);
  const isOpen = open === item.id;
  const marks = item.marks ?? {};
  const title = item.digest ? `${plural(item.items.length, "message")} in a digest` : headline(e);
  return h("li", { class: `card item${marks.opened ? " opened" : ""}${isOpen ? "" : " shut"}`, "data-id": item.id },
    h("h3", {}, h("button", { "aria-expanded": String(isOpen), onclick: () => toggle(item, draw) }, h("span", {}, title))),
    h("p", { class: "meta" },
      h("time", { dateTime: item.released ?? item.at }, ago(item.released ?? item.at)),
      ...(item.digest ? [] : facts(e).map((f) => h("span", {}, f))),
      item.why && h("span", { class: "chip warm" }, item.why)),
    h("p", { class: "why" }, icon("spark"), h("span", {}, whyLine(item))),
    isOpen && body(item, e),
    h("div", { class: "actions" },
      action("keep", marks.kept ? "Kept" : "Keep", () => give(item, marks.kept ? "unkept" : "kept"), marks.kept),
      action("close", "Dismiss", () => dismiss(item, "dismissed")),
      action("less", ["Less", h("span", { class: "rest" }, " like this")], () => dismiss(item, "less"))));
}

const action = (sign, label, run, pressed) =>
  h("button", { onclick: run, "aria-pressed": pressed === undefined ? null : String(Boolean(pressed)) }, icon(sign), h("span", {}, label));

export function whyLine(item) {
  const found = (item.subscriptions ?? []).map((id) => subscriptions.get(id)).filter(Boolean);
  const [first] = found;
  if (!first) return "One of your subscriptions matched";
  const words = first.because ?? first.name ?? describe(first.condition ?? "");
  return words + (found.length > 1 ? ` · and ${found.length - 1} more` : "");
}

const body = (item, e) =>
  h("div", { class: "body stack tight" }, item.digest ? item.items.map((each) => unfolding(item, each)) : details(item, e, `/deliveries/${item.id}/explanation`));

// One message of a digest: what it says, and why it came, when it is opened.
function unfolding(item, each) {
  const place = h("div", { class: "stack tight" });
  const unfold = () => place.firstChild || show(place, details(each, each.event, `/deliveries/${item.id}/explanation?message=${each.seq}`));
  return h("details", { ontoggle: unfold }, h("summary", {}, headline(each.event), " ", h("span", { class: "soft small" }, clock(each.at))), place);
}

function details(message, e, path) {
  const link = safeLink(address(e));
  const why = h("div", { class: "stack tight" }, h("p", { class: "soft small" }, "Looking up why…"));
  explain(message, path, why);
  return [summary(e) && h("p", {}, summary(e)),
    link && h("p", {}, h("a", { href: link, rel: "noopener noreferrer", target: "_blank" }, "Read at the source")),
    why];
}

async function explain(message, path, place) {
  try {
    message.explanation ??= await get(path);
  } catch (error) {
    const later = !(error.status < 500); // the service or the network may come back while it is read
    if (later) setTimeout(() => place.isConnected && explain(message, path, place), RETRY_MS);
    return show(place, h("p", { class: "soft small" }, navigator.onLine ? error.message : "Why it matched: when you are online again."));
  }
  const found = message.explanation;
  show(place, h("h3", { class: "small" }, "Why you got this"),
    found.subscriptions.map((s) => h("ul", { class: "steps" }, steps(s).map((step) =>
      h("li", {}, h("span", { class: step.truth ? "yes" : "no", "aria-label": step.truth ? "true" : "not true" }, step.truth ? "✓" : "✗"),
        h("span", {}, h("code", {}, step.text), values(step)))))),
    found.state === "now" && h("p", { class: "soft small" }, "With your context as it is now: the log does not reach back so far."));
}

const steps = (subscription) => subscription.steps ?? subscription.conjunctions?.flat() ?? [];

function values(step) {
  if (step.detail) return h("span", { class: "soft" }, ` ${step.detail}`);
  if (step.left === undefined || step.left === null) return null;
  return h("span", { class: "soft" }, ` — ${plain(step.left)}${step.right === undefined || step.right === null ? "" : ` against ${plain(step.right)}`}`);
}

function toggle(item, draw) {
  const was = open;
  leaveItem();
  if (was !== item.id) {
    open = item.id;
    since = Date.now();
    if (!item.marks?.opened) give(item, "opened");
  }
  draw();
  $(`[data-id="${item.id}"] h3 button`)?.focus({ preventScroll: true });
}

function leaveItem() {
  const item = items.get(open);
  const seconds = Math.round((Date.now() - since) / 1000);
  if (item) give(item, "read", { seconds: Math.min(seconds, 3600) });
  open = null;
}

function dismiss(item, signal) {
  const next = $(`[data-id="${item.id}"]`)?.nextElementSibling;
  give(item, signal);
  next?.querySelector("h3 button")?.focus({ preventScroll: true });
  toast(signal === "less" ? "You will see less like this" : "Dismissed", undo(item));
}
