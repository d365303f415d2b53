// The operator's console: its frame, and the overview that is drawn anew every two seconds.

import { get, keep, session, takeToken, whoAmI } from "./api.js";
import { chart } from "./charts.js";
import { deadLetters, oneSubscription, problem, sinks, subscriptionsByCost } from "./ledgers.js";
import { $, h, number, parts, show } from "./dom.js";

const EVERY_MS = 2000;
const SHOWN_S = 600;
const PATIENCE_MS = 20000; // so long an answer is waited for
const SECTIONS = [
  ["overview", "Overview", overview],
  ["subscriptions", "Subscriptions", (main, id) => (id ? oneSubscription(main, id) : subscriptionsByCost(main))],
  ["deadletters", "Dead letters", deadLetters],
  ["sinks", "Sinks", sinks],
];
const points = []; // {at, …}: history of the service, then what this page saw
let before = null;
let leave = null;
let stats = null;
const listeners = new Set();

async function begin() {
  takeToken();
  if (!session.token) return signIn();
  try {
    await whoAmI();
  } catch (error) {
    return signIn(error.status === 401 ? "That token is not known here, or was revoked." : problem(error));
  }
  if (session.role === "subscriber" || session.role === "publisher") return signIn("The console needs an operator's token.");
  show($("#tabs"), SECTIONS.map(([name, title]) => h("a", { href: `#${name}`, "data-name": name }, title)));
  addEventListener("hashchange", () => route(true));
  await past();
  route();
  poll();
}

function route(moved = false) {
  if (location.hash === "#main" || location.hash.startsWith("#token=")) return;
  const [name, ...rest] = parts();
  const section = SECTIONS.find((each) => each[0] === name) ?? SECTIONS[0];
  for (const link of document.querySelectorAll("#tabs a")) {
    if (link.dataset.name === section[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave?.();
  document.title = `${section[1]} · germane console`;
  leave = section[2]($("#main"), ...rest) ?? null;
  if (moved) $("#main").focus({ preventScroll: true });
}

// What happened before the page was opened.
async function past() {
  try {
    const history = await get(`/stats/history?seconds=${SHOWN_S}`);
    for (const p of history.points) points.push({ ...p, at: new Date(p.at) / 1000 });
    points.sort((a, b) => a.at - b.at);
  } catch {
    /* the charts then begin now */
  }
}

async function poll() {
  try {
    await look();
  } finally {
    setTimeout(poll, EVERY_MS);
  }
}

async function look() {
  try {
    stats = await get("/stats", { signal: AbortSignal.timeout(PATIENCE_MS) });
  } catch (error) {
    return lost(error);
  }
  note(stats);
  reached();
  for (const listener of listeners) listener();
}

let last = null; // when there were figures
function reached() {
  last = new Date();
  $("#state").className = "state small soft";
  $("#state").textContent = `as of ${last.toLocaleTimeString()}`;
  $("#main").classList.remove("old");
}

// Old figures are not to be taken for those of now. It is said once, and not read out every time.
function lost(error) {
  const words = `No figures${last ? ` since ${last.toLocaleTimeString()}` : ""}: ${problem(error)}`;
  $("#state").className = "state chip bad strong";
  if ($("#state").textContent !== words) $("#state").textContent = words;
  $("#main").classList.add("old");
}

const COUNTED = ["candidates", "false_positives", "matches", "updates", "index_updates", "escalations", "deescalations"];

// Counters of the filter become rates between two looks.
function note(now) {
  const at = Date.now() / 1000;
  const point = {
    at, ...now.rates, lag: now.lag, p50_ms: now.latency_ms?.p50, p99_ms: now.latency_ms?.p99,
    minibatch: now.filter?.batching?.minibatch, held: now.held, waiting: now.waiting,
  };
  if (before && now.filter && before.filter) {
    for (const name of COUNTED) point[`${name}_s`] = Math.max(0, now.filter[name] - before.filter[name]) / (at - before.at);
  }
  before = { at, filter: now.filter };
  points.push(point);
  while (points.length && points[0].at < at - SHOWN_S) points.shift();
}

function overview(main) {
  const tiles = h("div", { class: "tiles" });
  const index = h("section", { class: "card stack tight scroll", tabIndex: 0, "aria-label": "Index" });
  const batching = h("section", { class: "card stack tight" });
  const charts = [
    chart("Rates", "Events accepted, messages matched and deliveries made, each second.", [{ label: "events", key: "events" }, { label: "messages", key: "messages" }, { label: "deliveries", key: "deliveries" }], { unit: "/s" }),
    chart("Latency", "From the door to a visible delivery.", [{ label: "p50", key: "p50_ms" }, { label: "p99", key: "p99_ms" }], { digits: 1, unit: " ms" }),
    chart("Lag", "Events accepted that the matcher has not taken yet.", [{ label: "lag", key: "lag" }]),
    chart("Matching", "Candidates that the indexes proposed; false positives that the exact test refused.", [{ label: "candidates", key: "candidates_s" }, { label: "matches", key: "matches_s" }, { label: "false positives", key: "false_positives_s" }], { unit: "/s" }),
    chart("Adaptation", "Entries widened under updates, and made exact again for their false positives.", [{ label: "escalations", key: "escalations_s" }, { label: "deescalations", key: "deescalations_s" }, { label: "index updates", key: "index_updates_s" }], { digits: 1, unit: "/s" }),
    chart("Minibatch", "Messages that are matched together.", [{ label: "size", key: "minibatch" }], { digits: 1 }),
  ];
  show(main, h("div", { class: "stack" }, h("h1", { class: "visually-hidden" }, "Overview"), tiles,
    h("div", { class: "charts" }, charts.map((c) => c.card)), h("div", { class: "halves" }, index, batching)));
  const draw = () => {
    if (!stats) return;
    drawTiles(tiles);
    drawIndex(index);
    drawBatching(batching);
    for (const c of charts) c.update(points);
  };
  listeners.add(draw);
  draw();
  return () => listeners.delete(draw);
}

function drawTiles(place) {
  const s = stats;
  const tile = (label, value, { href, kind = "", digits = 0 } = {}) =>
    h(href ? "a" : "div", { class: `tile ${kind}`, href }, h("small", {}, label), h("b", {}, typeof value === "string" ? value : number(value, digits)));
  const f = s.filter ?? {};
  const dead = (s.deadletters ?? 0) + (s.dead_webhooks ?? 0); // events, and what no webhook took
  show(place,
    tile("messages/s", s.rates?.messages, { digits: 1 }), tile("deliveries/s", s.rates?.deliveries, { digits: 1 }), tile("events/s", s.rates?.events),
    tile("p50, ms", s.latency_ms?.p50, { digits: 1 }), tile("p99, ms", s.latency_ms?.p99, { digits: 1 }),
    tile("lag, events", s.lag, { kind: s.lag > 10000 ? "warm" : "" }),
    tile("subscriptions", s.subscriptions, { href: "#subscriptions" }), tile("contexts", s.contexts),
    tile("deliveries so far", s.deliveries), tile("held", s.held),
    tile("false positives", f.candidates ? `${number((100 * f.false_positives) / f.candidates, 1)} %` : "–"),
    tile("waiting for sinks", s.waiting, { href: "#sinks" }),
    tile("dead letters", dead, { href: "#deadletters", kind: dead ? "bad" : "" }));
}

function drawIndex(place) {
  const f = stats.filter ?? {};
  show(place, h("h2", {}, "Index"),
    h("p", {}, h("span", { class: "chip accent" }, f.index ?? "–"), " ", h("span", { class: "soft small" }, `policy ${plain(f.policy)} · ${number((f.bytes ?? 0) / 1048576, 1)} MiB · ${number(f.swept ?? 0)} rows swept`)),
    f.tables?.length ? h("table", {},
      h("caption", { class: "visually-hidden" }, "Tables of the index"),
      h("thead", {}, h("tr", {}, ["Attributes", "Indexed", "Waiting", "Let loose", "Builds", "Follows by"].map((t, k) => h("th", { scope: "col", class: k > 0 && k < 5 ? "n" : "" }, t)))),
      h("tbody", {}, f.tables.map((t) => h("tr", {},
        h("td", {}, t.attributes?.join(", ") || "–", t.loose?.length ? h("span", { class: "soft small" }, ` (loose: ${t.loose.join(", ")})`) : ""),
        h("td", { class: "n" }, number(t.inside)), h("td", { class: "n" }, number(t.waiting)), h("td", { class: "n" }, number(t.expelled)), h("td", { class: "n" }, number(t.builds)), h("td", {}, t.follows_contexts_by))))) : h("p", { class: "soft" }, "No table yet."),
    f.categories?.length ? h("table", {},
      h("caption", { class: "visually-hidden" }, "Indexes over content graphs"),
      h("thead", {}, h("tr", {}, ["Content graphs", "Profiles", "Entries", "Builds"].map((t, k) => h("th", { scope: "col", class: k ? "n" : "" }, t)))),
      h("tbody", {}, f.categories.map((c) => h("tr", {}, h("td", {}, c.forms?.join(", ")), h("td", { class: "n" }, number(c.rows)), h("td", { class: "n" }, c.entries?.map((e) => number(e)).join(", ")), h("td", { class: "n" }, number(c.builds)))))) : null);
}

function drawBatching(place) {
  const b = stats.filter?.batching ?? {};
  const stages = Object.entries(b.stage_ns ?? {});
  const total = stages.reduce((sum, [, ns]) => sum + ns, 0);
  show(place, h("h2", {}, stats.shards ? "Batching and shards" : "Batching"), h("dl", { class: "facts" },
    fact("strategy", [plain(b.strategy), b.last ? `, now ${b.last.startsWith("unbatched") ? "one message at a time" : "in minibatches"} ` : "", b.last && h("span", { class: "soft small" }, `(${b.last})`)]), fact("grouping", String(b.grouping ?? "–").replaceAll("'", "")),
    fact("minibatches", number(b.minibatches)), fact("messages in one", number(b.minibatch, 1)),
    total > 0 && stages.map(([name, ns]) => fact(`time to ${name}`, `${number((100 * ns) / total, 0)} %`)),
    stats.shards ? fact("shards", shards(stats.shards)) : null));
}

const plain = (name) => String(name ?? "–").replace(/\(\)$/, "").toLowerCase(); // Auto() is a name of Python's
const shards = (s) => `${number(s.count)}, ${number(100 * (s.pruned ?? 0), 1)} % of messages spared a shard`;
const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

function signIn(why) {
  const field = h("input", { id: "token", autocomplete: "off", spellcheck: false, placeholder: "gm_…", required: true });
  show($("#main"), h("form", { class: "card stack", onsubmit: (e) => { e.preventDefault(); keep({ token: field.value.trim(), role: null, subject: null }); begin(); } },
    h("h1", {}, "Operator's console"), h("div", { class: "field" }, h("label", { for: "token" }, "Operator's token"), field),
    why && h("p", { class: "error", role: "alert" }, why), h("div", {}, h("button", { class: "primary" }, "Open"))));
}

begin();
