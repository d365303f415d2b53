// A subscription, guided and as text, side by side: both show the same condition. While you type
// it is tested against the last messages, with your context as it is now.

import { call, get, session } from "./api.js";
import { parse, pretty, write, writeRow } from "./conditions.js";
import { fault } from "./faults.js";
import { ago, h, icon, number, redraw, show, toast } from "./dom.js";
import { headline, readSubscriptions, subscriptions } from "./mailbox.js";
import { context, facets, typed } from "./now.js";

const TESTED = 1000;
const RETRY_MS = 3000;
const drafts = new Map(); // id, or null for a new one -> what was typed and not saved, while the page lives
const OPERATORS = {
  string: [["=", "is"], ["<>", "is not"], ["like", "has the words"], ["in", "is one of"], ["not in", "is none of"], ["there", "is given"], ["missing", "is missing"]],
  number: [["<=", "is at most"], [">=", "is at least"], ["<", "is below"], [">", "is above"], ["=", "is"], ["<>", "is not"], ["between", "is between"], ["there", "is given"]],
  boolean: [["=", "is"]],
  category: [["within", "is about"], ["not within", "is not about"], ["contains", "covers"]],
  location: [["near", "is within"]],
  timestamp: [["<=", "is at most"], [">=", "is at least"], ["there", "is given"]],
};
const AT_PLACE = { within: "is at or inside", "not within": "is not inside", contains: "is an area with", "not contains": "is no area with" };
const STARTERS = [
  ["Near me", "position", (name) => `DISTANCE(${name}, context.position) <= 1000`],
  ["At or inside the place where I am", "place", (name) => `${name} WITHIN context.place`],
  ["For an area that contains the place where I am", "place", (name) => `${name} CONTAINS context.place`],
  ["A topic", "topic", (name, known) => `${name} WITHIN '${(known.values[0] ?? "").replaceAll("'", "''")}'`],
];

export function editor(main, id) {
  const known = { attributes: new Map(), context: {} };
  const given = id ? subscriptions.get(id) : null;
  const draft = drafts.get(id);
  let saved = given;
  const text = h("textarea", { class: "code", id: "condition", rows: 5, spellcheck: false, autocapitalize: "off", "aria-describedby": "verdict", placeholder: "topic WITHIN 'Music' AND context.task <> 'work'" });
  const verdict = h("p", { id: "verdict", role: "status" });
  const backtest = h("div", { class: "stack tight", "aria-live": "polite" });
  const rows = h("fieldset", { class: "rows", "aria-label": "Lines" });
  const starters = h("div", { class: "choices" });
  const urgent = h("input", { type: "checkbox", checked: (draft ?? given)?.urgent ?? false });
  const sink = h("input", { id: "sink", type: "url", placeholder: "https://…", value: (draft ?? given)?.sink ?? "" });
  const submit = h("button", { class: "primary", disabled: true }, id ? "Save" : "Subscribe");
  let parsed = []; // the lines; those of before while the text is not valid
  let beyond = false; // whether the text is valid, and more than lines can show
  let running = null;
  let timer = null;
  let done = false; // saved or ended: there is no draft to keep

  const asSaved = () => ({ condition: saved?.condition ?? "", urgent: saved?.urgent ?? false, sink: saved?.sink ?? "" });
  const asShown = () => ({ condition: text.value, urgent: urgent.checked, sink: sink.value });

  text.value = (draft ?? asSaved()).condition;

  const fromText = () => {
    const found = parse(text.value);
    rows.disabled = !found;
    if (found) [parsed, beyond] = [found, false];
    drawRows();
    later(350);
  };
  const fromRows = () => {
    const wrong = wrongValue(parsed);
    if (wrong) return refuse(wrong);
    text.value = write(parsed);
    later(150);
  };
  const refuse = (words) => {
    clearTimeout(timer);
    running?.abort();
    submit.disabled = true;
    text.removeAttribute("aria-invalid");
    verdict.className = "error";
    verdict.textContent = words;
    show(backtest);
  };
  const later = (wait) => {
    clearTimeout(timer);
    running?.abort(); // an answer to what stood there before would open the button for this
    submit.disabled = true;
    timer = setTimeout(test, wait);
  };

  async function test() {
    if (!text.isConnected) return; // somebody went on to another page
    running?.abort();
    running = new AbortController();
    const condition = text.value.trim();
    if (!condition) {
      text.removeAttribute("aria-invalid");
      verdict.className = "soft small";
      verdict.textContent = "Start with a line above, or write a condition.";
      show(backtest);
      return;
    }
    try {
      const found = await call("POST", "/subscriptions:test", { condition, context: session.subject, last: TESTED }, { signal: running.signal });
      text.removeAttribute("aria-invalid");
      verdict.className = "good";
      verdict.textContent = "✓ Valid";
      submit.disabled = false;
      if (rows.disabled) [beyond, rows.disabled] = [true, false];
      if (beyond) drawRows();
      drawBacktest(found);
      if (!found.matched) unsaid(condition);
      if (!found.matched && found.tested) unheard(found.tested, running.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      const refused = error.status === 400 || error.status === 422;
      if (refused) text.setAttribute("aria-invalid", "true");
      if (!(error.status < 500)) timer = setTimeout(test, RETRY_MS);
      const words = navigator.onLine ? error.message : "Offline: it is checked when you are online.";
      verdict.className = "error";
      if (refused) show(verdict, fault(condition, error, known));
      else if (verdict.textContent !== words) verdict.textContent = words; // said once, however often it is tried
      show(backtest);
    }
  }

  // Nothing came: perhaps because it depends on what one has not said of oneself.
  function unsaid(condition) {
    const own = [...condition.matchAll(/\bcontext\s*\.\s*([a-z_]\w*)/gi)].map(([, name]) => name);
    const missing = facets() ? [...new Set(own)].filter((name) => !(name in context)) : [];
    for (const name of missing.slice(0, 3)) backtest.append(h("p", { class: "chip warm" }, `Your ${pretty(name)} is not known: `, h("a", { href: "#now" }, "say it under Now")));
  }

  // Nothing came: perhaps because of a name that no message has.
  async function unheard(tested, signal) {
    const names = new Set((beyond ? [] : parsed).map((row) => !row.subject.mine && row.operator !== "missing" && row.subject.name).filter(Boolean));
    for (const name of [...names].filter((each) => !known.attributes.has(each)).slice(0, 3)) {
      const condition = writeRow({ subject: { mine: false, name }, operator: "there" });
      const found = await call("POST", "/subscriptions:test", { condition, last: TESTED }, { signal }).catch(() => null);
      if (signal.aborted) return;
      if (found?.matched === 0) backtest.append(h("p", { class: "chip warm" }, `None of the last ${number(tested)} messages had “${name}”.`));
    }
  }

  function drawBacktest(found) {
    show(backtest, h("h2", {}, `Would have brought ${number(found.matched)} of the last ${number(found.tested)} messages`),
      h("p", { class: "soft small" }, found.since ? `The oldest of them came ${ago(found.since)}. ` : "", "Tested with your context as it is now."),
      found.matched > found.tested / 3 && found.tested > 20 && h("p", { class: "chip warm" }, "That is a lot. Consider one more line."),
      h("ul", { class: "examples" }, (found.examples ?? []).slice(0, 6).map((each) =>
        h("li", {}, h("span", {}, headline(each.event)), h("span", {}, each.at ? ago(each.at) : `#${each.seq}`)))));
  }

  function drawRows() {
    if (beyond) {
      redraw(rows, h("p", { class: "soft small" }, "This condition says more than lines can show. Edit it as text."));
      return;
    }
    redraw(rows, parsed.map((row, k) => guide(row, k, known, {
      change: () => { fromRows(); drawRows(); },
      type: fromRows,
      remove: () => { parsed.splice(k, 1); fromRows(); drawRows(); rows.querySelector("select, button").focus(); },
    })),
    rows.disabled && h("p", { class: "soft small" }, "Lines follow the text as soon as it is complete."),
    h("div", {}, h("button", { type: "button", onclick: () => { parsed.push(fresh(known)); fromRows(); drawRows(); [...rows.querySelectorAll("select.subject")].at(-1)?.focus(); } }, icon("plus"), parsed.length ? "And" : "Add a line")));
  }

  function drawStarters() {
    const offered = STARTERS.filter(([, name]) => known.attributes.has(name));
    show(starters, offered.map(([title, name, make]) => h("button", { type: "button", onclick: () => {
      const line = make(name, known.attributes.get(name));
      text.value = text.value.trim() ? `${text.value.trim()}\n  AND ${line}` : line;
      fromText();
    } }, icon("plus"), title)));
  }

  async function save(e) {
    e.preventDefault();
    const before = saved && { ...saved, ...subscriptions.get(saved.id) };
    const body = { ...unshown(before), condition: text.value.trim(), urgent: urgent.checked, sink: sink.value.trim() || null };
    if (session.role !== "subscriber") Object.assign(body, { subscriber: session.subject, context: session.subject });
    submit.disabled = true;
    try {
      saved = before ? await put(before, body) : await call("POST", "/subscriptions", body);
      done = true;
      await readSubscriptions(saved).catch(() => {});
      toast(id ? "Saved" : "Subscribed. What matches from now on comes to your inbox.");
      location.hash = "#subscriptions";
    } catch (error) {
      submit.disabled = false;
      verdict.className = "error";
      show(verdict, error.status ? fault(body.condition, error, known) : error.message);
      verdict.scrollIntoView({ block: "center" });
    }
  }

  async function remove() {
    if (!confirm("End this subscription?")) return;
    const ended = { ...given, ...subscriptions.get(id) };
    const { condition, urgent, sink, subscriber, context } = ended;
    const undo = async () => {
      readSubscriptions(await put(ended, { ...unshown(ended), condition, urgent, sink, subscriber, context }));
    };
    try {
      const answer = await call("DELETE", `/subscriptions/${encodeURIComponent(id)}`);
      done = true;
      await readSubscriptions(answer).catch(() => {});
      toast("Ended", { label: "Undo", run: undo });
      location.hash = "#subscriptions";
    } catch (error) {
      toast(error.message);
    }
  }

  function startAnew() {
    const { condition, urgent: passes, sink: address } = asSaved();
    text.value = condition;
    urgent.checked = passes;
    sink.value = address;
    unsaved.remove();
    text.focus();
    fromText();
  }

  const unsaved = h("p", { class: "soft small" }, "As you left it; not saved yet. ", h("button", { type: "button", class: "link", onclick: startAnew }, id ? "As it was saved" : "Start anew"));
  text.addEventListener("input", fromText);
  show(main, h("form", { class: "stack", onsubmit: save },
    h("div", { class: "row" }, h("a", { class: "button", href: "#subscriptions", "aria-label": "Back to subscriptions" }, icon("back")), h("h1", {}, id ? "Edit subscription" : "New subscription")),
    draft && unsaved,
    h("div", { class: "stack beside" },
      h("fieldset", { class: "card stack tight" }, h("legend", { class: "visually-hidden" }, "Guided"),
        h("h2", {}, "Tell me of messages where"), starters, rows),
      h("div", { class: "stack" },
        h("div", { class: "card stack tight" },
          h("label", { for: "condition" }, "The same as text"), text, verdict),
        h("div", { class: "card stack tight" }, backtest,
          h("details", {}, h("summary", {}, "Delivery"), h("div", { class: "stack tight" },
            h("label", { class: "check" }, urgent, "Urgent: passes quiet hours and digests"),
            h("div", { class: "field" }, h("label", { for: "sink" }, "Also send to a web address"), sink))),
          h("div", { class: "row" }, submit, id && h("button", { type: "button", class: "bad", onclick: remove }, "End it")))))));
  learn(known).then(() => { drawStarters(); fromText(); });
  fromText();
  return () => {
    clearTimeout(timer);
    running?.abort();
    if (done || JSON.stringify(asShown()) === JSON.stringify(asSaved())) drafts.delete(id);
    else drafts.set(id, asShown());
  };
}

// What a subscription has, and this page does not show.
function unshown(subscription) {
  const { types, source, filters, protocol, expires } = subscription ?? {};
  return Object.fromEntries(Object.entries({ types, source, filters, protocol, expires }).filter(([, value]) => value));
}

// Put a subscription in the place of one of before; it stays muted or snoozed.
async function put(before, body) {
  const path = `/subscriptions/${encodeURIComponent(before.id)}`;
  const { muted, snoozed_until } = before;
  const now = await call("PUT", path, body);
  return muted || snoozed_until ? call("PATCH", path, { muted: Boolean(muted), snoozed_until }) : now;
}

// What is wrong with the first line whose value is none; null if all are well.
function wrongValue(rows) {
  for (const [k, row] of rows.entries()) {
    const wrong = [row.value, row.upper].find((each) => each?.wrong !== undefined);
    if (wrong) return `Line ${k + 1}: ${instead(wrong.wrong.trim(), wrong.type)}.`;
  }
  return null;
}

// What to write instead of what is no number, or neither true nor false.
function instead(text, type) {
  const near = type === "location";
  if (type === "boolean") return "write true or false";
  if (!text) return near ? "say how many metres" : "a number is missing";
  const meant = text.replace(",", ".").replace("-", near ? "" : "-");
  return `“${text}” is no ${near ? "distance" : "number"}; write one such as ${Number.isNaN(numeral(meant)) ? 250 : meant}`;
}

const numeral = (text) => (/^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i.test(text) ? Number(text) : NaN);

// What messages have, from the last ones and from the content graphs.
async function learn(known) {
  known.context = context;
  try {
    const [recent, { graphs }] = await Promise.all([
      call("POST", "/subscriptions:test", { condition: "TRUE", context: session.subject, last: 200 }),
      get("/graphs").catch(() => ({ graphs: [] })),
    ]);
    for (const { event } of recent.examples ?? []) gather(known.attributes, event);
    for (const graph of graphs) {
      const nodes = graph.edges < 20000 ? [...new Set((await get(`/graphs/${encodeURIComponent(graph.attribute)}`)).edges.flat())] : [];
      const attribute = known.attributes.get(graph.attribute) ?? { values: [] };
      known.attributes.set(graph.attribute, { type: "category", values: [...new Set([...attribute.values, ...nodes])] });
    }
  } catch {
    /* the guide then offers what the condition itself names */
  }
}

function gather(attributes, event) {
  const data = event.data && typeof event.data === "object" ? event.data : {};
  const taken = new Set(["specversion", "id", "data", "datacontenttype", "data_base64", "time"]);
  for (const [name, value] of [...Object.entries(event).filter(([n]) => !taken.has(n)), ...Object.entries(data)]) {
    const type = typeOf(value);
    if (!type) continue;
    const known = attributes.get(name) ?? { type, values: [] };
    if (type === "string" && value.length < 60 && known.values.length < 50 && !known.values.includes(value)) known.values.push(value);
    if (type === "category") for (const v of value) if (!known.values.includes(v)) known.values.push(v);
    attributes.set(name, known);
  }
}

function typeOf(value) {
  if (Array.isArray(value)) return value.length === 2 && value.every((v) => typeof v === "number") ? "location" : value.every((v) => typeof v === "string") ? "category" : null;
  if (value && typeof value === "object") return "lat" in value && "lon" in value ? "location" : null;
  return { number: "number", string: "string", boolean: "boolean" }[typeof value] ?? null;
}

function fresh(known) {
  const name = known.attributes.has("topic") ? "topic" : [...known.attributes.keys()][0] ?? "type";
  return begin({ mine: false, name }, known);
}

function begin(subject, known) {
  const type = typeFor(subject, known);
  const [operator] = OPERATORS[type][0];
  if (type === "location") return { subject, operator, to: { mine: true, name: subject.name }, value: { constant: 1000 } };
  const values = subject.mine ? [context[subject.name]].flat() : known.attributes.get(subject.name)?.values ?? [];
  const start = { number: 0, boolean: true }[type] ?? values[0] ?? "";
  return { subject, operator, value: { constant: start } };
}

function typeFor(subject, known, operator) {
  if (subject.mine) return typeOf(context[subject.name]) ?? "string";
  const type = known.attributes.get(subject.name)?.type;
  if (type) return type;
  return operator in { within: 1, contains: 1, "not within": 1 } ? "category" : operator === "near" ? "location" : ["<", "<=", ">", ">=", "between"].includes(operator) ? "number" : "string";
}

function guide(row, k, known, on) {
  const type = typeFor(row.subject, known, row.operator);
  const names = new Set([...known.attributes.keys(), ...(row.subject.mine ? [] : [row.subject.name])]);
  const own = new Set([...Object.keys(context), "task", "place", "daypart", ...(row.subject.mine ? [row.subject.name] : [])]);
  const option = (value, label, chosen) => h("option", { value, selected: chosen }, label);
  const subject = h("select", { class: "subject", "aria-label": `Line ${k + 1}: what`, onchange: (e) => {
    const [mine, ...name] = e.target.value.split(":");
    Object.assign(row, { upper: undefined, to: undefined }, begin({ mine: mine === "me", name: name.join(":") }, known));
    on.change();
  } },
  h("optgroup", { label: "The message" }, [...names].sort().map((n) => option(`it:${n}`, pretty(n), !row.subject.mine && n === row.subject.name))),
  h("optgroup", { label: "Me, now" }, [...own].sort().map((n) => option(`me:${n}`, `my ${pretty(n)}`, row.subject.mine && n === row.subject.name))));
  const operators = [...OPERATORS[type]];
  if (!operators.some(([o]) => o === row.operator)) operators.push([row.operator, row.operator]);
  const operator = h("select", { "aria-label": `Line ${k + 1}: how`, onchange: (e) => {
    row.operator = e.target.value;
    row.value = adjust(row.value, row.operator);
    if (row.operator === "between") row.upper ??= { constant: row.value.constant ?? 0 };
    on.change();
  } }, operators.map(([o, label]) => option(o, (row.subject.name === "place" && AT_PLACE[o]) || label, o === row.operator)));
  const remove = h("button", { type: "button", class: "remove", "aria-label": `Remove line ${k + 1}`, onclick: on.remove }, icon("close"));
  const none = row.operator === "there" || row.operator === "missing";
  return h("div", { class: "guide" }, subject, operator, remove,
    !none && h("div", { class: "value" }, entry(row, "value", k, type, known, on), row.operator === "between" && entry(row, "upper", k, type, known, on)));
}

function adjust(value, operator) {
  const many = operator === "in" || operator === "not in";
  if (many && !value.constants) return { constants: [String(value.constant ?? "")] };
  if (value.wrong !== undefined) return value;
  if (!many && value.constants) return { constant: value.constants[0] ?? "" };
  return value.constant === undefined && value.name === undefined && !value.constants ? { constant: "" } : value;
}

// Whether an attribute of the context can be compared with one of a message.
function fits(type, own) {
  const wanted = { number: ["number"], location: ["number"], boolean: ["boolean"] }[type] ?? ["string", "category"];
  return type === "timestamp" || wanted.includes(own);
}

// A value: a constant, or an attribute of one's own context.
function entry(row, slot, k, type, known, on) {
  const value = row[slot];
  const own = row.subject.mine ? [] : Object.keys(context).filter((n) => n === value.name || fits(type, typeOf(context[n])));
  const near = row.operator === "near";
  const list = `values-${k}`;
  const words = row.operator === "like" || row.operator === "not like";
  const shownText = value.wrong ?? (value.constants ? value.constants.join(", ") : value.moment ?? (words ? String(value.constant ?? "").replace(/^%|%$/g, "") : String(value.constant ?? "")));
  const field = value.name === undefined && h("input", { value: shownText, list, "aria-label": `Line ${k + 1}: ${slot}`, "aria-invalid": value.wrong === undefined ? null : "true", "aria-describedby": "verdict", inputMode: type === "number" || type === "location" ? "decimal" : "text", oninput: (e) => {
    row[slot] = read(e.target.value, row, value, type, words);
    e.target.ariaInvalid = row[slot].wrong === undefined ? null : "true";
    on.type();
  } });
  const mode = own.length > 0 && !words && !value.constants && h("select", { "aria-label": `Line ${k + 1}: value or my context`, onchange: (e) => {
    row[slot] = e.target.value ? { mine: true, name: e.target.value } : { constant: near ? 1000 : type === "number" ? 0 : "" };
    on.change();
  } }, h("option", { value: "", selected: value.name === undefined }, near ? "metres of me" : "this value"), own.map((n) => h("option", { value: n, selected: n === value.name }, `my ${pretty(n)}${near ? ", in metres" : ""}`)));
  const values = row.subject.mine ? [] : known.attributes.get(row.subject.name)?.values ?? [];
  return [field, mode || (near && h("span", {}, "metres of me")), field && values.length > 0 && h("datalist", { id: list }, values.slice(0, 500).map((v) => h("option", { value: v })))];
}

function read(text, row, before, type, words) {
  if (before.constants) return { constants: text.split(",").map((t) => t.trim()).filter(Boolean) };
  if (before.moment !== undefined || type === "timestamp") return { moment: text };
  if (words) return { constant: `%${text}%` };
  if (type === "number" || type === "location") {
    const value = numeral(text);
    return Number.isNaN(value) || (type === "location" && value < 0) ? { wrong: text, type } : { constant: value };
  }
  if (type === "boolean") {
    const value = typed(text);
    return typeof value === "boolean" ? { constant: value } : { wrong: text, type };
  }
  return { constant: text };
}
