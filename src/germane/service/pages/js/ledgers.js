// What an operator looks into: costly subscriptions and why, dead letters, sinks.

import { Unreached, call, get } from "./api.js";
import { describe } from "./conditions.js";
import { ago, h, number, plural, redraw, show, toast } from "./dom.js";

// What went wrong, in words. What was not reached is asked again without being told to.
const isLost = (error) => error.name === "TimeoutError" || error instanceof Unreached;
export const problem = (error) => (error.name === "TimeoutError" ? "germane does not answer" : isLost(error) && navigator.onLine ? "germane cannot be reached" : error.message);

const SAME = Symbol("what is shown stays");

function page(main, title, words, load) {
  const body = h("div", { class: "stack" }, h("p", { class: "soft" }, "Reading…"));
  show(main, h("div", { class: "stack" }, h("div", {}, h("h1", {}, title), words && h("p", { class: "soft" }, words)), body));
  let gone = false;
  let shown = false;
  const again = async () => {
    try {
      const found = await load(again);
      if (!gone && found !== SAME) redraw(body, found);
      shown = true;
    } catch (error) {
      if (!gone && !(shown && isLost(error))) show(body, h("p", { class: "error" }, problem(error)));
    }
  };
  again();
  return { again, stop: () => (gone = true) };
}

// A table; on a small screen its rows become blocks, with the heads as words before the values.
function table(caption, heads, rows) {
  const names = heads.map((t) => t.replace("#", ""));
  for (const row of rows) {
    row.setAttribute("role", "row");
    [...row.children].forEach((each, k) => {
      each.setAttribute("role", "cell");
      each.dataset.head = names[k];
    });
  }
  return h("div", { class: "card scroll", tabIndex: 0, role: "region", "aria-label": caption }, h("table", { class: "ledger", role: "table" }, h("caption", { class: "visually-hidden" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((t, k) => h("th", { scope: "col", role: "columnheader", class: t.startsWith("#") ? "n" : "" }, names[k])))),
    h("tbody", { role: "rowgroup" }, rows)));
}

const cell = (value) => h("td", { class: typeof value === "number" ? "n" : "" }, typeof value === "number" ? number(value, 1) : value);

const COUNTED = 5; // pages of events that are read to count messages

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
  return page(main, "One subscription", null, async () => {
    const path = `/subscriptions/${encodeURIComponent(id)}`;
    const [s, cost, stats] = await Promise.all([get(path), get(`${path}/cost`), get("/stats")]);
    const { messages, exact } = await messagesSince(s.seq, stats.log.last);
    return [
      h("div", { class: "halves" },
        h("section", { class: "card stack tight" }, h("h2", {}, describe(s.condition ?? "")), h("pre", { class: "mono" }, s.condition),
          h("dl", { class: "facts" }, fact("subscriber", s.subscriber), fact("context", s.context ?? "none"), fact("state", s.muted ? "muted" : s.state), fact("sink", s.sink ?? "none"))),
        h("section", { class: "card stack tight" }, h("h2", {}, "Cost"), h("dl", { class: "facts" },
          fact("cost", `${number(cost.cost, 1)} (1 is one indexed conjunction)`), fact("conjunctions", number(cost.conjunctions)),
          fact("tested at every message", cost.always_tested ? `${number(cost.always_tested)} of them` : "none of them"), fact("matches", `${number(cost.matches)}${messages ? ` of ${exact ? "" : "about "}${plural(messages, "message")} since it was made (${number((100 * cost.matches) / messages, 2)} %)` : ""}`)))),
      h("section", { class: "card stack tight" }, h("h2", {}, isCostly(cost, messages) ? "Why is this one costly?" : "Why is this one cheap?"), h("ul", { class: "reasons" }, reasons(cost, messages).map((r) => h("li", {}, r)))),
      h("p", {}, h("a", { href: "#subscriptions" }, "All subscriptions"))];
  }).stop;
}

// How many messages came after a seq: counted, or of an old one told from the share of messages
// among the last events.
async function messagesSince(seq, last) {
  let [messages, before] = [0, last + 1];
  for (let page = 0; page < COUNTED; page += 1) {
    const { events } = await get(`/events?limit=1000&before=${before}`);
    const after = events.filter((each) => each.seq > seq);
    messages += after.filter(({ event }) => !event.type.startsWith("germane.context.")).length;
    if (after.length < events.length || !events.length) return { messages, exact: true };
    before = events.at(-1).seq;
  }
  return { messages: Math.round((messages * (last - seq)) / (last + 1 - before)), exact: false };
}

const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

const MANY_CONJUNCTIONS = 8;
const matchesOften = (cost, messages) => messages > 50 && cost.matches > messages / 4;
const isCostly = (cost, messages) => cost.always_tested > 0 || cost.conjunctions > MANY_CONJUNCTIONS || matchesOften(cost, messages);

// One account: what an index finds, what is tested at every message, and what is tested then.
function reasons(cost, messages) {
  const { conjunctions, indexed = [], residual, always_tested: always = 0 } = cost;
  const inside = conjunctions - always;
  const names = indexed.join(", ");
  const found = [];
  if (inside) found.push(`${always ? `Of ${number(conjunctions)} conjunctions, an index finds ${number(inside)}` : "An index finds it"}${names ? `${always ? "; of this subscription, indexes can look up" : " by"} ${names}` : ", by the nodes of a content graph or by an approximate pattern"}.`);
  if (always) found.push(`${inside ? plural(always, "conjunction") : "It"} ${inside && always > 1 ? "are" : "is"} tested at every message: ${names ? outside(names, conjunctions) : NO_INDEX}`);
  if (conjunctions > MANY_CONJUNCTIONS) found.push(`Its OR and IN expand into ${number(conjunctions)} conjunctions; each is kept and looked up. A list (IN) or a category (WITHIN) may say the same in one.`);
  if (residual && inside) found.push("For what an index proposes, a part is tested exactly (arithmetic with two attributes, patterns, distances, categories, negations): cheap for one candidate, dear if there are many.");
  if (matchesOften(cost, messages)) found.push("It matches more than a quarter of all messages: the deliveries themselves are the cost.");
  return found;
}

const NO_INDEX = "nothing in there can be looked up in an index. A comparison with a constant, or with one attribute of the context (price < context.limit), or a category (WITHIN) beside it would be.";
const outside = (names, conjunctions) => `too few subscriptions ask for the same attributes (${names}) yet to be worth a table, or its context changes so often that a table would cost more${conjunctions > 1 ? ", or nothing in there can be looked up" : ""}.`;

// Dead letters ------------------------------------------------------------------------------------

const LETTERS_MS = 3000; // what was sent again may come back
const DOUBLE_MS = 600; // a second press that follows so soon is of the same double click

export function deadLetters(main) {
  let after = "";
  let drawn = null;
  const { again, stop } = page(main, "Dead letters", "What could not be taken or delivered, with the reason. Redrive sends it again; if that fails, too, it comes back here.", async () => {
    const { deadletters, next } = await get(`/deadletters?limit=50${after}`);
    if (!deadletters.length && after) {
      after = "";
      return again().then(() => SAME);
    }
    const now = JSON.stringify([deadletters.map(({ id, at }) => [id, at]), next]);
    if (now === drawn) return SAME; // what is open, and a question that waits, stay
    drawn = now;
    if (!deadletters.length) return h("p", { class: "empty" }, "No dead letters.");
    const open = new Set([...main.querySelectorAll("details[open]")].map((each) => each.dataset.letter));
    const older = () => {
      after = `&after=${encodeURIComponent(next)}`;
      again();
    };
    return [table("Dead letters", ["When", "Kind", "Reason", "What", ""], deadletters.map((d) => letter(d, open.has(d.id), again))),
      next && h("div", {}, h("button", { onclick: older }, "Older"))];
  });
  const timer = setInterval(again, LETTERS_MS);
  return () => { clearInterval(timer); stop(); };
}

const LETTER_KINDS = { event: "event", delivery: "webhook" };

function letter(d, open, again) {
  const name = d.seq ? `#${d.seq}` : d.id;
  const row = h("tr", {},
    cell(d.at ? ago(d.at) : "–"), cell(LETTER_KINDS[d.kind] ?? d.kind), h("td", { class: "wide" }, d.reason, d.sink && h("div", { class: "soft small" }, `${d.sink}, ${plural(d.attempts ?? 0, "attempt")}`)),
    h("td", { class: "wide" }, h("details", { open, "data-letter": d.id }, h("summary", {}, name), h("pre", { class: "mono" }, JSON.stringify(d.event ?? d, null, 2)))));
  const act = async (method, path, words) => {
    try {
      await call(method, `/deadletters/${encodeURIComponent(d.id)}${path}`, method === "POST" ? {} : undefined);
      toast(words);
      leaveRow(row);
    } catch (error) {
      toast(problem(error));
    }
    again();
  };
  row.append(h("td", {}, h("div", { class: "row" },
    d.redriven ? h("span", { class: "chip" }, "redriven") : h("button", { "aria-label": `Redrive ${name}`, onclick: () => act("POST", ":redrive", "Sent again; if it fails, it comes back") }, "Redrive"),
    asking("Delete", name, () => act("DELETE", "", "Deleted")))));
  return row;
}

// Nobody else may be under the pointer or have the focus by chance: the row goes, its neighbour is next.
function leaveRow(row) {
  const next = row.nextElementSibling ?? row.previousElementSibling;
  if (row.contains(document.activeElement)) next?.querySelector("td:last-child button:last-child")?.focus();
  row.remove();
}

// A button that asks once, in its place, before it does what cannot be undone.
function asking(word, name, act) {
  let [asks, busy, pressed] = [false, false, -Infinity];
  const button = h("button", { class: "bad", onclick: () => press(), onblur: () => ask(false), onkeydown: (e) => e.key === "Escape" && ask(false) });
  const ask = (on) => {
    asks = on;
    button.textContent = on ? `${word} for good?` : word;
    button.ariaLabel = `${button.textContent} ${name}`;
  };
  const press = async () => {
    const isDouble = performance.now() - pressed < DOUBLE_MS;
    pressed = performance.now();
    if (isDouble || busy) return;
    if (!asks) return ask(true);
    busy = true;
    await act();
    busy = false;
    ask(false);
  };
  ask(false);
  return button;
}

// Sinks -------------------------------------------------------------------------------------------

const SLOW_S = 15;

// A sink that answers, but not fast enough for what comes, is slow.
const pace = (s) => (s.state === "ok" && s.waiting_since && Date.now() - new Date(s.waiting_since) > 1000 * SLOW_S ? "slow" : s.state);

export function sinks(main) {
  const { again, stop } = page(main, "Sinks", "Where deliveries are sent. A slow or failing one waits alone; the others go on.", async () => {
    const { sinks: found } = await get("/sinks");
    if (!found.length) return h("p", { class: "empty" }, "No subscription has a sink: a web address that what it brings is sent to, which its editor takes under Delivery.");
    const worst = [...found].sort((a, b) => (b.waiting ?? 0) - (a.waiting ?? 0));
    return table("Sinks", ["Sink", "State", "#Waiting", "#Dead", "#Failures", "Last failure", "Last success", ""], worst.map((s) => h("tr", {},
      h("td", { class: "wide" }, s.url), h("td", {}, h("span", { class: `chip ${{ ok: "accent", slow: "warm", failing: "warm" }[pace(s)] ?? "bad"}` }, pace(s))),
      h("td", { class: "n" }, number(s.waiting ?? 0), s.waiting_since && h("div", { class: "soft small" }, `oldest ${ago(s.waiting_since)}`)), cell(s.dead ?? 0), cell(s.failures ?? 0),
      h("td", { class: "wide" }, s.last_failure ? [s.last_failure.reason ?? String(s.last_failure), " ", h("span", { class: "soft small" }, s.last_failure.at ? ago(s.last_failure.at) : "")] : "–"),
      cell(s.last_success ? ago(s.last_success) : "–"),
      h("td", {}, s.state !== "ok" && h("button", { "aria-label": `Try now: ${s.url}`, onclick: () => call("POST", `/sinks/${s.id}:resume`, {}).then(() => { toast("Trying it now"); again(); }, (e) => toast(problem(e))) }, "Try now")))));
  });
  const timer = setInterval(again, 5000);
  return () => { clearInterval(timer); stop(); };
}
