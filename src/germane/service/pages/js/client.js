// The client's frame: who signs in, which section is shown, whether the connection is live.

import { forget, keep, onOther, session, takeToken, whoAmI } from "./api.js";
import { $, h, icon, parts, show, toast } from "./dom.js";
import { inbox, unseen } from "./inbox.js";
import { load, mailbox, start, stop } from "./mailbox.js";
import { followContext, now } from "./now.js";
import { settings } from "./settings.js";
import * as store from "./store.js";
import { subscriptionsPage } from "./subscriptions.js";

const SECTIONS = [
  ["inbox", "Inbox", "inbox", inbox],
  ["now", "Now", "now", now],
  ["subscriptions", "Subscriptions", "bell", subscriptionsPage],
  ["settings", "Settings", "tune", settings],
];
const STATES = {
  live: "Live",
  lost: "Reconnecting…",
  offline: "Offline: this is what you have",
  refused: "The service refused the connection",
};
const PROBLEM = "germane.problem"; // why somebody was signed out, for the page that comes then
let leave = null; // what the shown section wants done when it goes

let offlineReady = false;

async function begin() {
  const given = takeToken();
  if (given) await store.clear();
  if (!offlineReady) workOffline();
  offlineReady = true;
  if (!session.token) {
    signIn(sessionStorage.getItem(PROBLEM));
    return sessionStorage.removeItem(PROBLEM);
  }
  try {
    await whoAmI();
  } catch (error) {
    if (error.status === 401) return signIn("That token is not known here, or was revoked.");
    if (!session.subject) return signIn(error.status ? `The service does not let you in: ${error.message}.` : error.message);
  }
  if (session.role === "publisher") return signIn("This is a publisher's token: it sends messages, and has no inbox.");
  if (!session.subject) return chooseSubject();
  await load();
  frame();
  addEventListener("germane:refused", revoked);
  start((state, error) => {
    connection(state);
    if (error?.status === 401) revoked();
  });
  followContext();
}

// The policy of the page takes script addresses only from here.
function workOffline() {
  if (!("serviceWorker" in navigator)) return;
  const policy = globalThis.trustedTypes?.createPolicy("germane", { createScriptURL: () => "sw.js" });
  navigator.serviceWorker.register(policy ? policy.createScriptURL("") : "sw.js").catch(() => {});
}

function frame() {
  const tabs = $("#tabs");
  tabs.hidden = false;
  show(tabs, SECTIONS.map(([name, title, sign]) =>
    h("a", { href: `#${name}`, "data-name": name }, icon(sign), h("span", {}, title))));
  addEventListener("hashchange", () => route(true));
  mailbox.addEventListener("change", count);
  count();
  route();
}

function route(moved = false) {
  if (!session.token) return; // signed out: nothing of before is shown
  if (location.hash === "#main" || location.hash.startsWith("#token=")) return;
  const [name, ...rest] = parts();
  const section = SECTIONS.find((each) => each[0] === name) ?? SECTIONS[0];
  for (const link of document.querySelectorAll("#tabs a")) {
    if (link.dataset.name === section[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave?.();
  const main = $("#main");
  document.title = `${section[1]} · germane`;
  leave = section[3](main, ...rest) ?? null;
  if (moved) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

function count() {
  const fresh = unseen();
  const link = $('#tabs a[data-name="inbox"]');
  link?.querySelector(".count")?.remove();
  if (fresh) link?.append(h("span", { class: "count", "aria-label": `${fresh} unread` }, fresh > 99 ? "99+" : fresh));
}

function connection(state) {
  const place = $("#state");
  place.dataset.state = state;
  if (place.textContent !== STATES[state]) place.textContent = STATES[state];
}

function signIn(problem) {
  const field = h("input", { id: "token", autocomplete: "off", spellcheck: false, placeholder: "gm_…", required: true });
  const submit = async (e) => {
    e.preventDefault();
    keep({ token: field.value.trim(), role: null, subject: null });
    await store.clear();
    begin();
  };
  show($("#main"), h("form", { class: "stack card narrow", onsubmit: submit },
    h("h1", {}, "What matters to you, now"),
    h("p", { class: "soft" }, "Paste the token that your operator gave you. It stays in this browser."),
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"), field),
    problem && h("p", { class: "error", role: "alert" }, problem),
    h("div", {}, h("button", { class: "primary" }, "Sign in"))));
}

// An operator's token belongs to nobody: say for whom to look.
function chooseSubject() {
  const field = h("input", { id: "subject", required: true, autocomplete: "off" });
  const submit = (e) => {
    e.preventDefault();
    keep({ subject: field.value.trim() });
    begin();
  };
  show($("#main"), h("form", { class: "stack card narrow", onsubmit: submit },
    h("h1", {}, "Whose inbox?"),
    h("p", { class: "soft" }, "This is an operator's token. Name a subscriber, or open the ", h("a", { href: "console" }, "console"), "."),
    h("div", { class: "field" }, h("label", { for: "subject" }, "Subscriber"), field),
    h("div", {}, h("button", { class: "primary" }, "Open"))));
}

// What was read is in the memory of many modules, too: a new page has none of it.
export async function signOut(problem) {
  forget();
  if (problem) sessionStorage.setItem(PROBLEM, problem);
  const cleared = store.clear();
  empty();
  try {
    await cleared;
  } finally {
    location.replace(location.pathname);
  }
}

const revoked = () => session.token && signOut("Your token was revoked.");

function empty() {
  stop();
  store.close();
  $("#tabs").hidden = true;
  show($("#main"));
}

addEventListener("germane:signout", () => signOut());
onOther((token) => {
  if (!token) return signOut();
  empty();
  location.replace(location.pathname);
});
addEventListener("pageshow", (e) => e.persisted && location.reload()); // not as it was left
addEventListener("unhandledrejection", (e) => toast(e.reason?.message ?? "Something went wrong."));
begin();
