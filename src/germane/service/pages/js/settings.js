// How deliveries reach you: quiet hours, digests, a limit. Nothing is dropped, only held.

import { call, get, session } from "./api.js";
import { clock, h, plural, show, toast } from "./dom.js";
import { headline } from "./mailbox.js";

const RETRY_MS = 3000;
let install = null;
addEventListener("beforeinstallprompt", (event) => {
  event.preventDefault();
  install = event;
  dispatchEvent(new Event("germane:installable"));
});

const path = () => `/preferences/${encodeURIComponent(session.subject)}`;
const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export function settings(main) {
  const body = h("div", { class: "stack" }, h("p", { class: "soft" }, "Reading your preferences…"));
  const held = h("section", { class: "card stack tight", hidden: true });
  const app = h("section", { class: "card stack tight" });
  show(main, h("div", { class: "stack narrow" }, h("h1", {}, "Settings"), body, held, app));
  read(body, held);
  const draw = () => about(app);
  addEventListener("germane:installable", draw);
  draw();
  return () => removeEventListener("germane:installable", draw);
}

async function read(body, held) {
  try {
    const { preferences } = await get(path());
    show(body, form(preferences ?? {}, () => waiting(held)));
    waiting(held);
  } catch (error) {
    show(body, h("p", { class: "error" }, navigator.onLine ? error.message : "Offline: your preferences are shown when you are online."));
    if (!(error.status < 500)) setTimeout(() => body.isConnected && read(body, held), RETRY_MS);
  }
}

// A time in the largest unit that it is a whole number of.
function spell(seconds) {
  const [length, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"]].find(([l]) => seconds % l === 0) ?? [1, "second"];
  return plural(seconds / length, unit);
}

const same = (a, b) => (a?.seconds ?? null) === (b?.seconds ?? null) && (a?.count ?? null) === (b?.count ?? null);

// What can be chosen; what was set otherwise stays, as one more choice.
function digests(now) {
  const offered = [[null, "Each at once"], [{ seconds: 900 }, "A digest every 15 minutes"], [{ seconds: 3600 }, "A digest every hour"], [{ seconds: 86400 }, "A digest every day"]];
  if (!now || offered.some(([wish]) => same(wish, now))) return offered;
  const every = now.seconds && `every ${spell(now.seconds).replace(/^1 /, "")}`;
  const full = now.count && `of ${plural(now.count, "message")}`;
  return [...offered, [now, `A digest ${[full, every].filter(Boolean).join(", or ")}`]];
}

function form(preferences, after) {
  const p = preferences;
  const quiet = h("input", { type: "checkbox", checked: Boolean(p.quiet) });
  const from = h("input", { id: "from", type: "time", value: p.quiet?.from ?? "22:00", required: true });
  const to = h("input", { id: "to", type: "time", value: p.quiet?.to ?? "07:00", required: true });
  const digest = h("select", { id: "digest" }, digests(p.digest).map(([wish, label]) =>
    h("option", { value: wish ? JSON.stringify(wish) : "", selected: same(wish, p.digest) }, label)));
  const limit = h("input", { id: "rate", type: "number", min: 1, max: 1000, value: p.rate?.limit ?? "", placeholder: "no limit" });
  const times = h("div", { class: "two", hidden: !quiet.checked },
    h("div", { class: "field" }, h("label", { for: "from" }, "From"), from),
    h("div", { class: "field" }, h("label", { for: "to" }, "Until"), to));
  quiet.addEventListener("change", () => (times.hidden = !quiet.checked));
  const snoozed = p.snoozed_until && new Date(p.snoozed_until) > new Date();
  const wishes = () => ({
    quiet: quiet.checked ? { from: from.value, to: to.value, zone: p.quiet?.zone ?? zone() } : null,
    digest: digest.value ? JSON.parse(digest.value) : null,
    rate: limit.value ? { limit: Number(limit.value), seconds: p.rate?.seconds ?? 60 } : null,
    snoozed_until: p.snoozed_until ?? null,
  });
  const put = async (values, words) => {
    try {
      await call("PUT", path(), Object.fromEntries(Object.entries(values).filter(([, v]) => v !== null)));
      Object.assign(p, values); // what the next change goes on from
      toast(words);
      after();
      return true;
    } catch (error) {
      toast(navigator.onLine ? error.message : "Offline: nothing was changed.");
      return false;
    }
  };
  const snooze = async (until, words) => {
    if (await put({ ...wishes(), snoozed_until: until }, words)) show(section.parentElement, form(p, after));
  };
  const section = h("form", { class: "stack", onsubmit: (e) => { e.preventDefault(); put(wishes(), "Saved"); } },
    h("section", { class: "card stack tight" }, h("h2", {}, "Quiet hours"),
      h("label", { class: "check" }, quiet, "Hold what arrives at night"), times,
      h("p", { class: "soft small" }, `In the time of ${p.quiet?.zone ?? zone()}. Urgent messages pass.`)),
    h("section", { class: "card stack tight" }, h("h2", {}, "How often"),
      h("div", { class: "field" }, h("label", { for: "digest" }, "Deliver"), digest),
      h("div", { class: "field" }, h("label", { for: "rate" }, `At most, in ${spell(p.rate?.seconds ?? 60).replace(/^1 h/, "an h").replace(/^1 /, "a ")}`), limit)),
    h("div", { class: "row" }, h("button", { class: "primary" }, "Save"),
      snoozed
        ? h("button", { type: "button", onclick: () => snooze(null, "Awake") }, `Snoozed until ${clock(p.snoozed_until)}: wake`)
        : h("button", { type: "button", onclick: () => snooze(new Date(Date.now() + 3600e3).toISOString(), "Everything is held for an hour") }, "Snooze all for 1 h")));
  return section;
}

async function waiting(place) {
  try {
    const { held } = await get(`/deliveries/held?subscriber=${encodeURIComponent(session.subject)}`);
    place.hidden = !held.length;
    show(place, h("h2", {}, `${plural(held.length, "message")} held for you`),
      h("ul", { class: "examples" }, held.slice(0, 10).map((each) =>
        h("li", {}, h("span", {}, each.event ? headline(each.event) : `#${each.seq}`), h("span", {}, `${each.why ?? "held"}${each.due ? `, until ${clock(each.due)}` : ""}`)))));
  } catch {
    place.hidden = true;
  }
}

function about(place) {
  show(place, h("h2", {}, "This device"),
    h("p", { class: "soft small" }, `Signed in as ${session.subject}. What arrived is kept here, and can be read offline.`),
    h("div", { class: "row" },
      install && h("button", { class: "primary", onclick: async () => { install.prompt(); await install.userChoice; install = null; about(place); } }, "Install the app"),
      session.role !== "subscriber" && h("a", { class: "button", href: "console" }, "Operator's console"),
      h("button", { class: "bad", onclick: () => confirm("Sign out? What you kept is on this device alone, and is erased.") && dispatchEvent(new Event("germane:signout")) }, "Sign out, erase this device")));
}
