// What you asked for, and what was learned about you: everything that decides what arrives.

import { call, get, session } from "./api.js";
import { describe } from "./conditions.js";
import { clock, h, icon, plural, redraw, show, toast } from "./dom.js";
import { editor } from "./editor.js";
import { mailbox, readSubscriptions, subscriptions } from "./mailbox.js";

const RETRY_MS = 3000;

export function subscriptionsPage(main, id) {
  if (id) return id === "new" || subscriptions.has(id) ? editor(main, id === "new" ? null : id) : find(main, id);
  const list = h("ul", { class: "plain stack", "aria-label": "Subscriptions" });
  const learned = h("section", { class: "stack", hidden: true });
  show(main, h("div", { class: "stack narrow" },
    h("div", { class: "row spread" }, h("h1", {}, "Subscriptions"),
      h("a", { class: "button primary", href: "#subscriptions/new" }, icon("plus"), "New")),
    list, learned));
  const draw = () => {
    const mine = [...subscriptions.values()].filter((s) => !isLearned(s));
    redraw(list, mine.length ? mine.map(line) : h("li", { class: "empty" },
      h("p", { class: "strong" }, "You have not asked for anything yet"),
      h("p", {}, "Say what you want to hear of, where and when. You see at once what it would have brought.")));
  };
  mailbox.addEventListener("change", draw);
  draw();
  readSubscriptions().catch((error) => toast(navigator.onLine ? error.message : "Offline: this is what you had."));
  interests(learned);
  return () => mailbox.removeEventListener("change", draw);
}

// One that is not known here yet, or never was.
function find(main, id) {
  let leave = null;
  let gone = false;
  show(main, h("p", { class: "soft" }, "Looking for it…"));
  const found = () => {
    if (gone) return;
    if (subscriptions.has(id)) leave = editor(main, id);
    else show(main, h("div", { class: "stack narrow" }, h("h1", {}, "There is no such subscription"),
      h("p", { class: "soft" }, navigator.onLine ? "It was ended, or it is somebody else's." : "It is not on this device, and there is no network to look for it."),
      h("p", {}, h("a", { class: "button", href: "#subscriptions" }, icon("back"), "All subscriptions"))));
  };
  readSubscriptions().then(found, found);
  return () => {
    gone = true;
    leave?.();
  };
}

export const isLearned = (subscription) => (subscription.id ?? "").startsWith("agent-");

function line(s) {
  const snoozed = s.snoozed_until && new Date(s.snoozed_until) > new Date();
  return h("li", { class: "card sub" },
    h("a", { id: `open-${s.id}`, class: "title", href: `#subscriptions/${encodeURIComponent(s.id)}` }, h("span", {}, describe(s.condition ?? "") || "everything")),
    h("div", { class: "row" },
      s.state === "refused" && h("span", { class: "chip bad" }, s.reason ?? "refused"),
      s.urgent && h("span", { class: "chip warm" }, "urgent"),
      s.muted && h("span", { class: "chip warm" }, "muted"),
      snoozed && h("span", { class: "chip warm" }, `snoozed until ${clock(s.snoozed_until)}`),
      s.sink && h("span", { class: "chip" }, "webhook"),
      s.matches !== undefined && s.matches !== null && h("span", { class: "chip" }, plural(s.matches, "match", "matches"))),
    h("div", { class: "actions" },
      h("button", { id: `mute-${s.id}`, class: "quiet", "aria-pressed": String(Boolean(s.muted)), onclick: () => change(s, { muted: !s.muted }) }, icon("mute"), s.muted ? "Muted" : "Mute"),
      h("button", { id: `snooze-${s.id}`, class: "quiet", onclick: () => change(s, { snoozed_until: snoozed ? null : new Date(Date.now() + 3600e3).toISOString() }) }, snoozed ? "Wake" : "Snooze 1 h"),
      h("a", { id: `edit-${s.id}`, class: "button", href: `#subscriptions/${encodeURIComponent(s.id)}` }, "Edit")));
}

async function change(s, values) {
  try {
    await readSubscriptions(await call("PATCH", `/subscriptions/${encodeURIComponent(s.id)}`, values));
  } catch (error) {
    toast(error.message);
  }
}

// Interests: what the user agent made of your feedback. Absent where the service has no agent.
async function interests(place) {
  const path = `/agents/${encodeURIComponent(session.subject)}`;
  let known;
  try {
    known = await get(path);
  } catch (error) {
    if (!(error.status < 500)) setTimeout(() => place.isConnected && interests(place), RETRY_MS);
    return;
  }
  const again = (promise, words, undo) => promise.then((answer) => {
    toast(words, undo && { label: "Undo", run: () => again(undo(), "As before") });
    interests(place);
    readSubscriptions(answer);
  }, (error) => toast(error.message));
  const set = (topic, state) => call("PUT", `${path}/topics/${encodeURIComponent(topic)}`, { state });
  place.hidden = false;
  redraw(place, h("div", { class: "row spread" }, h("h2", {}, "Learned from you"),
    h("label", { class: "check" }, h("input", { id: "learned", type: "checkbox", checked: known.on, onchange: (e) => again(call("PUT", path, { on: e.target.checked }), e.target.checked ? "Learned interests are used" : "Learned interests are not used") }), "Bring me that, too")),
  h("p", { class: "soft small" }, `From ${plural(known.feedback, "piece", "pieces")} of feedback: what you open, keep and dismiss. This is what counts where you are now, with what you do now.`),
  known.interests.length ? h("ul", { class: "plain stack tight" }, known.interests.map((each) =>
    h("li", { class: "card sub" },
      h("div", { class: "row spread" }, h("span", { class: "strong" }, each.topic), h("span", { class: "row" },
        each.state && h("span", { class: "chip accent" }, each.state), h("span", { class: "soft small" }, `${Math.round(100 * each.score)} %`))),
      h("div", { class: "meter", role: "img", "aria-label": `interest ${Math.round(100 * each.score)} percent` }, bar(each.score)),
      each.because && h("p", { class: "soft small" }, each.because),
      h("div", { class: "row" },
        h("button", { id: `always-${each.topic}`, class: "quiet", "aria-pressed": String(each.state === "pinned"), onclick: () => again(set(each.topic, each.state === "pinned" ? null : "pinned"), each.state === "pinned" ? "Unpinned" : `${each.topic}: always`, () => set(each.topic, each.state)) }, icon("pin"), "Always"),
        h("button", { id: `never-${each.topic}`, class: "quiet", "aria-pressed": String(each.state === "muted"), onclick: () => again(set(each.topic, each.state === "muted" ? null : "muted"), each.state === "muted" ? "Unmuted" : `${each.topic}: never`, () => set(each.topic, each.state)) }, icon("mute"), "Never")))))
    : h("p", { class: "soft" }, `${known.feedback ? "Not enough yet" : "Nothing yet"}: keep what you like, dismiss what you do not.`),
  h("div", { class: "row" },
    h("button", { onclick: () => save(path) }, "Export all"),
    h("button", { class: "bad", onclick: () => confirm("Erase everything that was learned about you? This cannot be undone.") && again(call("DELETE", path), "Erased") }, "Erase all")));
}

function bar(share) {
  const inner = h("i");
  inner.style.width = `${Math.round(100 * Math.max(0, Math.min(1, share)))}%`;
  return inner;
}

async function save(path) {
  const all = await get(`${path}/export`);
  const url = URL.createObjectURL(new Blob([JSON.stringify(all, null, 2)], { type: "application/json" }));
  h("a", { href: url, download: `germane-${session.subject}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
