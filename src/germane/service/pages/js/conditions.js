// Conditions between text and the rows of the guided editor. The text is what is kept; rows are a
// view of the conditions that are simple enough: one list of comparisons, joined by AND. What is
// not (OR, arithmetic, documents) parses to null here, and stays text. The service decides what is
// valid; nothing here does.

const TOKEN = /\s*(?:('(?:[^']|'')*')|("(?:[^"]|"")*")|(\d+\.?\d*(?:[eE][+-]?\d+)?)|([A-Za-z_][A-Za-z0-9_]*)|(<=|>=|<>|!=|[=<>(),.-]))/y;

function tokens(text) {
  const found = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length && text.slice(TOKEN.lastIndex).trim()) {
    const match = TOKEN.exec(text);
    if (!match) return null;
    if (match[1]) found.push({ kind: "text", value: match[1].slice(1, -1).replaceAll("''", "'") });
    else if (match[2]) found.push({ kind: "name", value: match[2].slice(1, -1).replaceAll('""', '"') });
    else if (match[3]) found.push({ kind: "number", value: Number(match[3]) });
    else if (match[4]) found.push({ kind: "word", value: match[4] });
    else found.push({ kind: "sign", value: match[5] });
  }
  return found;
}

class Reader {
  constructor(found) {
    this.found = found;
    this.at = 0;
  }
  peek() {
    return this.found[this.at];
  }
  is(value) {
    const token = this.peek();
    return token && token.kind !== "text" && token.kind !== "name" && String(token.value).toUpperCase() === value;
  }
  take(value) {
    if (!this.is(value)) return false;
    this.at += 1;
    return true;
  }
  need(value) {
    if (!this.take(value)) throw new Error(value);
  }
  // an attribute: {mine: whether it is the context's, name}
  attribute() {
    let mine = false;
    if (this.is("CONTEXT") && this.found[this.at + 1]?.value === ".") {
      this.at += 2;
      mine = true;
    }
    const token = this.found[this.at++];
    if (token?.kind !== "name" && token?.kind !== "word") throw new Error("name");
    if (token.kind === "word" && RESERVED.has(token.value.toUpperCase())) throw new Error("name");
    return { mine, name: token.value };
  }
  value() {
    if (this.is("CONTEXT")) return { mine: true, name: this.attribute().name };
    const minus = this.take("-");
    const token = this.found[this.at++];
    if (token?.kind === "number") return { constant: minus ? -token.value : token.value };
    if (minus) throw new Error("number");
    if (token?.kind === "text") return { constant: token.value };
    if (token?.kind === "word" && /^(true|false)$/i.test(token.value)) return { constant: /^t/i.test(token.value) };
    if (token?.kind === "word" && token.value.toUpperCase() === "TIMESTAMP")
      return { moment: this.found[this.at++].value };
    throw new Error("value");
  }
  list() {
    this.need("(");
    const items = [this.value()];
    while (this.take(",")) items.push(this.value());
    this.need(")");
    if (items.some((i) => typeof i.constant !== "string")) throw new Error("strings");
    return { constants: items.map((i) => i.constant) };
  }
  row() {
    if (this.take("DISTANCE")) return this.distance();
    const negated = this.take("NOT");
    if (negated) {
      const inner = this.take("(");
      const row = this.row();
      if (inner) this.need(")");
      if (!(row.operator in OPPOSITE)) throw new Error("not");
      return { ...row, operator: OPPOSITE[row.operator] };
    }
    const subject = this.attribute();
    if (this.take("IS")) {
      const not = this.take("NOT");
      this.need("NULL");
      return { subject, operator: not ? "there" : "missing", value: {} };
    }
    const not = this.take("NOT");
    const flip = (operator) => (not ? OPPOSITE[operator] ?? fail() : operator);
    if (this.take("BETWEEN")) {
      const low = this.value();
      this.need("AND");
      return { subject, operator: not ? fail() : "between", value: low, upper: this.value() };
    }
    if (this.take("IN")) return { subject, operator: flip("in"), value: this.list() };
    if (this.take("LIKE")) return { subject, operator: flip("like"), value: this.value() };
    if (this.take("WITHIN"))
      return { subject, operator: flip("within"), value: this.is("(") ? this.list() : this.value() };
    if (this.take("CONTAINS"))
      return { subject, operator: flip("contains"), value: this.is("(") ? this.list() : this.value() };
    const sign = this.found[this.at++];
    const operator = sign?.value === "!=" ? "<>" : sign?.value;
    if (not || !["=", "<>", "<", "<=", ">", ">="].includes(operator)) throw new Error("operator");
    return { subject, operator, value: this.value() };
  }
  distance() {
    this.need("(");
    const subject = this.attribute();
    this.need(",");
    const to = this.attribute();
    this.need(")");
    this.need("<=");
    if (subject.mine || !to.mine) throw new Error("distance");
    return { subject, operator: "near", to, value: this.value() };
  }
}

const RESERVED = new Set("AND OR NOT IN IS NULL LIKE BETWEEN TRUE FALSE WITHIN CONTAINS MATCHES COST ABS ESCAPE DISTANCE".split(" "));
const OPPOSITE = {
  like: "not like", "not like": "like", within: "not within", "not within": "within",
  contains: "not contains", "not contains": "contains", in: "not in", "not in": "in", "=": "<>", "<>": "=",
};

function fail() {
  throw new Error("too much for rows");
}

// The rows of a condition; null if it is more than a list of comparisons.
export function parse(text) {
  const found = tokens(text);
  if (!found) return null;
  const reader = new Reader(found);
  const rows = [];
  try {
    if (!found.length || (found.length === 1 && reader.take("TRUE"))) return [];
    do {
      const inner = reader.take("(");
      rows.push(reader.row());
      if (inner) reader.need(")");
    } while (reader.take("AND"));
  } catch {
    return null;
  }
  return reader.at === found.length ? rows : null;
}

const quote = (text) => `'${String(text).replaceAll("'", "''")}'`;
const named = (name) =>
  /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !RESERVED.has(name.toUpperCase()) && name.toUpperCase() !== "CONTEXT" && name.toUpperCase() !== "TIMESTAMP"
    ? name
    : `"${name.replaceAll('"', '""')}"`;
const written = ({ mine, name }) => (mine ? `context.${named(name)}` : named(name));

function valued(value) {
  if (value.name !== undefined) return `context.${named(value.name)}`;
  if (value.moment !== undefined) return `TIMESTAMP ${quote(value.moment)}`;
  if (value.constants) return `(${value.constants.map(quote).join(", ")})`;
  if (typeof value.constant === "number") return String(value.constant);
  if (typeof value.constant === "boolean") return value.constant ? "TRUE" : "FALSE";
  return quote(value.constant ?? "");
}

const WORDS = {
  like: "LIKE", "not like": "NOT LIKE", within: "WITHIN", contains: "CONTAINS", in: "IN",
};

export function writeRow(row) {
  const subject = written(row.subject);
  if (row.operator === "near")
    return `DISTANCE(${subject}, ${written({ mine: true, name: row.to?.name ?? row.subject.name })}) <= ${valued(row.value)}`;
  if (row.operator === "missing") return `${subject} IS NULL`;
  if (row.operator === "there") return `${subject} IS NOT NULL`;
  if (row.operator === "between") return `${subject} BETWEEN ${valued(row.value)} AND ${valued(row.upper)}`;
  if (row.operator === "not within") return `NOT ${subject} WITHIN ${valued(row.value)}`;
  if (row.operator === "not in") return `NOT ${subject} IN ${valued(row.value)}`;
  if (row.operator === "not contains") return `NOT ${subject} CONTAINS ${valued(row.value)}`;
  return `${subject} ${WORDS[row.operator] ?? row.operator} ${valued(row.value)}`;
}

export const write = (rows) => rows.map(writeRow).join("\n  AND ");

// A condition in words, for a why-line and for lists.
export function describe(text) {
  const rows = parse(text);
  if (!rows) return text.replace(/\s+/g, " ");
  return rows.length ? rows.map(inWords).join(", ") : "everything";
}

const SIGNS = {
  "=": "is", "<>": "is not", "<": "below", "<=": "at most", ">": "above", ">=": "at least",
  like: "matches", "not like": "does not match", within: "within", "not within": "not within",
  contains: "covers", "not contains": "does not cover", in: "is", "not in": "is not",
};

function spoken(value) {
  if (value.name !== undefined) return `my ${pretty(value.name)}`;
  if (value.constants) return value.constants.join(" or ");
  return String(value.moment ?? value.constant);
}

export const pretty = (name) => name.replaceAll("_", " ").replaceAll(".", " ");

export function inWords(row) {
  const subject = row.subject.mine ? `my ${pretty(row.subject.name)}` : pretty(row.subject.name);
  if (row.operator === "near")
    return `within ${row.value.name !== undefined ? spoken(row.value) : `${metres(row.value.constant)} of me`}`;
  if (row.operator === "missing") return `no ${subject}`;
  if (row.operator === "there") return `any ${subject}`;
  if (row.operator === "between") return `${subject} ${spoken(row.value)} to ${spoken(row.upper)}`;
  if (row.operator === "like" && /^%[^%_]*%$/.test(row.value.constant ?? ""))
    return `${subject} has “${row.value.constant.slice(1, -1)}”`;
  if (row.operator === "within" && !row.subject.mine && row.value.name === undefined) return spoken(row.value);
  if (row.operator === "within" && row.value.name === row.subject.name) return `at or inside ${spoken(row.value)}`;
  if (row.operator === "contains" && row.value.name === row.subject.name) return `for an area that contains ${spoken(row.value)}`;
  if (row.operator === "=" && row.subject.name === "type" && !row.subject.mine) return spoken(row.value);
  return `${row.subject.mine ? "while " : ""}${subject} ${SIGNS[row.operator] ?? row.operator} ${spoken(row.value)}`;
}

// Great-circle metres, as DISTANCE counts them.
function apart([lat1, lon1], [lat2, lon2]) {
  const rad = Math.PI / 180;
  const a = Math.sin(((lat2 - lat1) * rad) / 2) ** 2 + Math.cos(lat1 * rad) * Math.cos(lat2 * rad) * Math.sin(((lon2 - lon1) * rad) / 2) ** 2;
  return 2 * 6371008.8 * Math.asin(Math.sqrt(a));
}

// A value that a condition met.
export function plain(v) {
  if (Array.isArray(v)) return v.join(", ");
  if (v === null || v === undefined) return "nothing";
  if (typeof v !== "object") return String(v);
  const [a, b] = Object.values(v).filter((p) => Array.isArray(p) && p.length === 2 && p.every((x) => typeof x === "number"));
  if (a && b) return `${metres(apart(a, b))} apart`;
  return Object.values(v).map(plain).join(" and ");
}

export const metres = (m) => (m >= 1000 ? `${(m / 1000).toLocaleString(undefined, { maximumFractionDigits: 1 })} km` : `${Math.round(m)} m`);
