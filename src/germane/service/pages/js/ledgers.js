// What an operator looks into: costly subscriptions and why, dead letters, sinks.

import { call, get } from "./api.js";
import { describe } from "./conditions.js";
import { ago, h, number, plural, show, toast } from "./dom.js";

function page(main, title, words, load) {
  const body = h("div", { class: "stack" }, h("p", { class: "soft" }, "Reading…"));
  show(main, h("div", { class: "stack" }, h("div", {}, h("h1", {}, title), words && h("p", { class: "soft" }, words)), body));
  let gone = false;
  const again = async () => {
    try {
      const found = await load(again);
      if (!gone) show(body, found);
    } catch (error) {
      if (!gone) show(body, h("p", { class: "error" }, error.message));
    }
  };
  again();
  return { again, stop: () => (gone = true) };
}

function table(caption, heads, rows) {
  return h("div", { class: "card scroll", tabIndex: 0, role: "region", "aria-label": caption }, h("table", {}, h("caption", { class: "visually-hidden" }, caption),
    h("thead", {}, h("tr", {}, heads.map((t) => h("th", { scope: "col", class: t.startsWith("#") ? "n" : "" }, t.replace("#", ""))))),
    h("tbody", {}, rows)));
}

const cell = (value) => h("td", { class: typeof value === "number" ? "n" : "" }, typeof value === "number" ? number(value, 1) : value);

// Subscriptions -----------------------------------------------------------------------------------

export function subscriptionsByCost(main) {
  let order = "cost";
  const choice = (name, label) => h("button", { "aria-pressed": String(order === name), onclick: () => { order = name; again(); } }, label);
  const { again, stop } = page(main, "Subscriptions", "Those that cost or match most. Open one to see why.", async () => {
    const { subscriptions } = await get(`/stats/subscriptions?order=${order}&limit=100`);
    return [h("div", { class: "row" }, choice("cost", "By cost"), choice("matches", "By matches")),
      subscriptions.length ? table("Subscriptions", ["Condition", "Subscriber", "#Matches", "#Cost", "Found by", "Then"],
        subscriptions.map((s) => h("tr", {},
          h("td", { class: "wide" }, h("a", { href: `#subscriptions/${encodeURIComponent(s.id)}` }, describe(s.condition ?? ""))),
          cell(s.subscriber), cell(s.matches), cell(s.cost), cell(s.indexed?.join(", ") || (s.always_tested ? "every message" : "a content graph")), cell(s.residual ? "exact test" : "nothing more"))))
        : h("p", { class: "empty" }, "Nobody has asked for anything yet.")];
  });
  return stop;
}

export function oneSubscription(main, id) {
  return page(main, "Why is this one costly?", null, async () => {
    const path = `/subscriptions/${encodeURIComponent(id)}`;
    const [s, cost, stats] = await Promise.all([get(path), get(`${path}/cost`), get("/stats")]);
    const messages = stats.filter?.messages ?? 0;
    return [
      h("div", { class: "halves" },
        h("section", { class: "card stack tight" }, h("h2", {}, describe(s.condition ?? "")), h("pre", { class: "mono" }, s.condition),
          h("dl", { class: "facts" }, fact("subscriber", s.subscriber), fact("context", s.context ?? "none"), fact("state", s.muted ? "muted" : s.state), fact("sink", s.sink ?? "none"))),
        h("section", { class: "card stack tight" }, h("h2", {}, "Cost"), h("dl", { class: "facts" },
          fact("cost", `${number(cost.cost, 1)} (1 is one indexed conjunction)`), fact("conjunctions", number(cost.conjunctions)),
          fact("always tested", number(cost.always_tested ?? 0)), fact("matches", `${number(cost.matches)}${messages ? ` of ${number(messages)} messages (${number((100 * cost.matches) / messages, 2)} %)` : ""}`)))),
      h("section", { class: "card stack tight" }, h("h2", {}, "Why"), h("ul", { class: "reasons" }, reasons(cost, messages).map((r) => h("li", {}, r)))),
      h("p", {}, h("a", { href: "#subscriptions" }, "All subscriptions"))];
  }).stop;
}

const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

function reasons(cost, messages) {
  const found = [];
  if (!cost.indexed?.length && !cost.always_tested) found.push("Messages find it by the nodes of a content graph, an approximate pattern or another index than those of plain comparisons.");
  else if (!cost.indexed?.length) found.push("No predicate can be looked up in an index, so that it is tested at every message. A comparison with a constant, or with one attribute of the context (price < context.limit), would be found by an index.");
  else found.push(`Messages find it by ${cost.indexed.join(", ")}.`);
  if (cost.always_tested) found.push(`${plural(cost.always_tested, "conjunction")} of ${number(cost.conjunctions)} stand outside the indexes just now: too few of that kind to be worth a table, or let loose because its context changes too often.`);
  if (cost.conjunctions > 8) found.push(`Its OR and IN expand into ${number(cost.conjunctions)} conjunctions; each is kept and looked up. A list (IN) or a category (WITHIN) may say the same in one.`);
  if (cost.residual) found.push("A part is tested exactly after the indexes (arithmetic with two attributes, patterns, distances, negations): cheap for one candidate, dear if there are many.");
  if (messages > 50 && cost.matches > messages / 4) found.push("It matches more than a quarter of all messages: the deliveries themselves are the cost.");
  if (found.length === 1 && !cost.always_tested) found.push("Nothing makes it costly.");
  return found;
}

// Dead letters ------------------------------------------------------------------------------------

export function deadLetters(main) {
  let after = "";
  const { again, stop } = page(main, "Dead letters", "What could not be taken or delivered, with the reason. Redrive sends it again.", async () => {
    const { deadletters, next } = await get(`/deadletters?limit=50${after}`);
    if (!deadletters.length) return h("p", { class: "empty" }, "No dead letters.");
    const act = (promise, words) => promise.then(() => { toast(words); again(); }, (error) => toast(error.message));
    return [table("Dead letters", ["When", "Kind", "Reason", "What", ""], deadletters.map((d) => h("tr", {},
      cell(d.at ? ago(d.at) : "–"), cell(d.kind), h("td", { class: "wide" }, d.reason, d.sink && h("div", { class: "soft small" }, `${d.sink}, ${plural(d.attempts ?? 0, "attempt")}`)),
      h("td", { class: "wide" }, h("details", {}, h("summary", {}, d.seq ? `#${d.seq}` : d.id), h("pre", { class: "mono" }, JSON.stringify(d.event ?? d, null, 2)))),
      h("td", {}, h("div", { class: "row" }, d.redriven ? h("span", { class: "chip" }, "redriven") : h("button", { onclick: () => act(call("POST", `/deadletters/${encodeURIComponent(d.id)}:redrive`, {}), "Sent again") }, "Redrive"),
        h("button", { class: "bad", "aria-label": `Delete ${d.id}`, onclick: () => act(call("DELETE", `/deadletters/${encodeURIComponent(d.id)}`), "Deleted") }, "Delete")))))),
    next && h("div", {}, h("button", { onclick: () => { after = `&after=${encodeURIComponent(next)}`; again(); } }, "Older"))];
  });
  return stop;
}

// Sinks -------------------------------------------------------------------------------------------

const SLOW_S = 15;

// A sink that answers, but not fast enough for what comes, is slow.
const pace = (s) => (s.state === "ok" && s.waiting_since && Date.now() - new Date(s.waiting_since) > 1000 * SLOW_S ? "slow" : s.state);

export function sinks(main) {
  const { again, stop } = page(main, "Sinks", "Where deliveries are sent. A slow or failing one waits alone; the others go on.", async () => {
    const { sinks: found } = await get("/sinks");
    if (!found.length) return h("p", { class: "empty" }, "No subscription has a sink.");
    const worst = [...found].sort((a, b) => (b.waiting ?? 0) - (a.waiting ?? 0));
    return table("Sinks", ["Sink", "State", "#Waiting", "#Dead", "#Failures", "Last failure", "Last success", ""], worst.map((s) => h("tr", {},
      h("td", { class: "wide" }, s.url), h("td", {}, h("span", { class: `chip ${{ ok: "accent", slow: "warm", failing: "warm" }[pace(s)] ?? "bad"}` }, pace(s))),
      h("td", { class: "n" }, number(s.waiting ?? 0), s.waiting_since && h("div", { class: "soft small" }, `oldest ${ago(s.waiting_since)}`)), cell(s.dead ?? 0), cell(s.failures ?? 0),
      h("td", { class: "wide" }, s.last_failure ? [s.last_failure.reason ?? String(s.last_failure), " ", h("span", { class: "soft small" }, s.last_failure.at ? ago(s.last_failure.at) : "")] : "–"),
      cell(s.last_success ? ago(s.last_success) : "–"),
      h("td", {}, s.state !== "ok" && h("button", { "aria-label": `Try now: ${s.url}`, onclick: () => call("POST", `/sinks/${s.id}:resume`, {}).then(() => { toast("Trying it now"); again(); }, (e) => toast(e.message)) }, "Try now")))));
  });
  const timer = setInterval(again, 5000);
  return () => { clearInterval(timer); stop(); };
}
