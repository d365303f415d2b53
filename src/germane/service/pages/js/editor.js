// A subscription, guided and as text, side by side: both show the same condition. While you type
// it is tested against the last messages, with your context as it is now.

import { call, get, session } from "./api.js";
import { parse, pretty, write } from "./conditions.js";
import { ago, h, icon, number, show, toast } from "./dom.js";
import { headline, readSubscriptions, subscriptions } from "./mailbox.js";
import { context, typed } from "./now.js";

const TESTED = 1000;
const OPERATORS = {
  string: [["=", "is"], ["<>", "is not"], ["like", "has the words"], ["in", "is one of"], ["there", "is given"], ["missing", "is missing"]],
  number: [["<=", "is at most"], [">=", "is at least"], ["<", "is below"], [">", "is above"], ["=", "is"], ["<>", "is not"], ["between", "is between"], ["there", "is given"]],
  boolean: [["=", "is"]],
  category: [["within", "is about"], ["not within", "is not about"], ["contains", "covers"]],
  location: [["near", "near me, metres"]],
  timestamp: [["<=", "is at most"], [">=", "is at least"], ["there", "is given"]],
};
const STARTERS = [
  ["Near me", "position", (name) => `DISTANCE(${name}, context.position) <= 1000`],
  ["Where I am", "place", (name) => `${name} CONTAINS context.place`],
  ["A topic", "topic", (name, known) => `${name} WITHIN '${(known.values[0] ?? "").replaceAll("'", "''")}'`],
];

export function editor(main, id) {
  const known = { attributes: new Map(), context: {} };
  const given = id ? subscriptions.get(id) : null;
  let saved = given;
  const text = h("textarea", { class: "code", id: "condition", rows: 5, spellcheck: false, autocapitalize: "off", "aria-describedby": "verdict", placeholder: "topic WITHIN 'Music' AND context.task <> 'work'" });
  const verdict = h("p", { id: "verdict", role: "status" });
  const backtest = h("div", { class: "stack tight", "aria-live": "polite" });
  const rows = h("div", { class: "rows" });
  const starters = h("div", { class: "choices" });
  const urgent = h("input", { type: "checkbox", checked: given?.urgent ?? false });
  const sink = h("input", { id: "sink", type: "url", placeholder: "https://…", value: given?.sink ?? "" });
  const submit = h("button", { class: "primary", disabled: true }, id ? "Save" : "Subscribe");
  let parsed = [];
  let running = null;
  let timer = null;

  text.value = given?.condition ?? "";

  const fromText = () => {
    parsed = parse(text.value);
    drawRows();
    later(350);
  };
  const fromRows = () => {
    text.value = write(parsed);
    later(150);
  };
  const later = (wait) => {
    clearTimeout(timer);
    submit.disabled = true;
    timer = setTimeout(test, wait);
  };

  async function test() {
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
      drawBacktest(found);
    } catch (error) {
      if (error.name === "AbortError") return;
      const refused = error.status === 400 || error.status === 422;
      if (refused) text.setAttribute("aria-invalid", "true");
      verdict.className = "error";
      verdict.textContent = refused ? where(condition, error) : navigator.onLine ? error.message : "Offline: it is checked when you are online.";
      show(backtest);
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
    if (!parsed) {
      show(rows, h("p", { class: "soft small" }, "This condition says more than lines can show. Edit it as text."));
      return;
    }
    show(rows, parsed.map((row, k) => guide(row, k, known, {
      change: () => { fromRows(); drawRows(); },
      type: fromRows,
      remove: () => { parsed.splice(k, 1); fromRows(); drawRows(); rows.querySelector("select")?.focus(); },
    })),
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
    const body = { condition: text.value.trim(), urgent: urgent.checked, sink: sink.value.trim() || null };
    if (session.role !== "subscriber") Object.assign(body, { subscriber: session.subject, context: session.subject });
    submit.disabled = true;
    try {
      if (saved) saved = await call("PUT", `/subscriptions/${encodeURIComponent(saved.id)}`, body);
      else saved = await call("POST", "/subscriptions", body);
      await readSubscriptions().catch(() => {});
      toast(id ? "Saved" : "Subscribed. What matches from now on comes to your inbox.");
      location.hash = "#subscriptions";
    } catch (error) {
      submit.disabled = false;
      verdict.className = "error";
      verdict.textContent = where(body.condition, error);
    }
  }

  async function remove() {
    if (!confirm("End this subscription?")) return;
    try {
      await call("DELETE", `/subscriptions/${encodeURIComponent(id)}`);
      await readSubscriptions().catch(() => {});
      toast("Ended", { label: "Undo", run: async () => { await call("POST", "/subscriptions", { condition: given.condition, urgent: given.urgent, sink: given.sink }); readSubscriptions(); } });
      location.hash = "#subscriptions";
    } catch (error) {
      toast(error.message);
    }
  }

  text.addEventListener("input", fromText);
  show(main, h("form", { class: "stack", onsubmit: save },
    h("div", { class: "row" }, h("a", { class: "button", href: "#subscriptions", "aria-label": "Back to subscriptions" }, icon("back")), h("h1", {}, id ? "Edit subscription" : "New subscription")),
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
  drawRows();
  return () => { clearTimeout(timer); running?.abort(); };
}

function where(condition, error) {
  if (error.position === null || error.position === undefined) return error.message;
  const before = condition.slice(Math.max(0, error.position - 12), error.position);
  return `${error.message}${error.message.includes("position") ? "" : ` (after “${before}”)`}`;
}

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
  } }, operators.map(([o, label]) => option(o, label, o === row.operator)));
  const remove = h("button", { type: "button", class: "remove", "aria-label": `Remove line ${k + 1}`, onclick: on.remove }, icon("close"));
  const none = row.operator === "there" || row.operator === "missing";
  return h("div", { class: "guide" }, subject, operator, remove,
    !none && h("div", { class: "value" }, entry(row, "value", k, type, known, on), row.operator === "between" && entry(row, "upper", k, type, known, on)));
}

function adjust(value, operator) {
  if (operator === "in" && !value.constants) return { constants: [String(value.constant ?? "")] };
  if (operator !== "in" && value.constants) return { constant: value.constants[0] ?? "" };
  return value.constant === undefined && value.name === undefined && !value.constants ? { constant: "" } : value;
}

// A value: a constant, or an attribute of one's own context.
function entry(row, slot, k, type, known, on) {
  const value = row[slot];
  const own = row.subject.mine ? [] : Object.keys(context);
  const list = `values-${k}`;
  const words = row.operator === "like" || row.operator === "not like";
  const shownText = value.constants ? value.constants.join(", ") : value.moment ?? (words ? String(value.constant ?? "").replace(/^%|%$/g, "") : String(value.constant ?? ""));
  const field = value.name === undefined && h("input", { value: shownText, list, "aria-label": `Line ${k + 1}: ${slot}`, inputMode: type === "number" || type === "location" ? "decimal" : "text", oninput: (e) => {
    row[slot] = read(e.target.value, row, value, type, words);
    on.type();
  } });
  const mode = own.length > 0 && !words && row.operator !== "in" && h("select", { "aria-label": `Line ${k + 1}: value or my context`, onchange: (e) => {
    row[slot] = e.target.value ? { mine: true, name: e.target.value } : { constant: type === "number" ? 0 : "" };
    on.change();
  } }, h("option", { value: "", selected: value.name === undefined }, "this value"), own.map((n) => h("option", { value: n, selected: n === value.name }, `my ${pretty(n)}`)));
  const values = row.subject.mine ? [] : known.attributes.get(row.subject.name)?.values ?? [];
  return [field, mode, field && values.length > 0 && h("datalist", { id: list }, values.slice(0, 500).map((v) => h("option", { value: v })))];
}

function read(text, row, before, type, words) {
  if (before.constants) return { constants: text.split(",").map((t) => t.trim()).filter(Boolean) };
  if (before.moment !== undefined || type === "timestamp") return { moment: text };
  if (words) return { constant: `%${text}%` };
  if (type === "number" || type === "location") return { constant: Number(text) || 0 };
  if (type === "boolean") return { constant: typed(text) === true };
  return { constant: text };
}
