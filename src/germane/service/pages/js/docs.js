// The HTTP API for people, drawn from openapi.json: requests by subject, each with what it takes and
// what it answers. Nothing is loaded from elsewhere.

import { $, h, show } from "./dom.js";

const DEEP = 4; // levels of a shape that are written out

async function begin() {
  const main = $("#main");
  try {
    const answer = await fetch("/openapi.json");
    if (!answer.ok) throw new Error(`the service answered ${answer.status}`);
    draw(main, await answer.json());
  } catch (error) {
    show(main, h("p", { class: "error", role: "alert" }, `The description cannot be read: ${error.message}`));
  }
}

function draw(main, api) {
  const subjects = new Map();
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, request] of Object.entries(methods)) {
      const subject = request.tags?.[0] ?? "other";
      subjects.set(subject, [...(subjects.get(subject) ?? []), { path, method, ...request }]);
    }
  const anchor = (subject) => subject.replaceAll(" ", "-");
  show(main, h("div", { class: "stack" },
    h("h1", {}, `The API of ${api.info.title} ${api.info.version}`),
    api.info.description.trim().split(/\n\s*\n/).map((part) => h("p", {}, prose(part))),
    h("nav", { "aria-label": "Subjects" }, h("ul", { class: "subjects" }, [...subjects.keys()].map((subject) => h("li", {}, h("a", { href: `#${anchor(subject)}` }, subject))))),
    [...subjects].map(([subject, requests]) => h("section", { class: "stack tight", id: anchor(subject), "aria-label": subject },
      h("h2", {}, capital(subject)), requests.map((each) => card(each, api))))));
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
const prose = (text = "") => text.split("`").map((part, k) => (k % 2 ? h("code", {}, part) : part));

function card(request, api) {
  const given = request.parameters ?? [];
  const body = Object.entries(request.requestBody?.content ?? {});
  return h("details", { class: "card request" },
    h("summary", {}, h("span", { class: `method ${request.method}` }, request.method.toUpperCase()), h("code", {}, request.path),
      h("span", { class: "soft small" }, prose((request.description ?? request.summary ?? "").split(/\n\s*\n/)[0]))),
    h("div", { class: "stack tight" },
      (request.description ?? "").split(/\n\s*\n/).slice(1).map((part) => h("p", {}, prose(part))),
      given.length > 0 && [h("h3", {}, "Takes"), h("dl", { class: "given" }, given.map((each) => parameter(each, api)))],
      body.map(([kind, content]) => [h("h3", {}, "Body, ", h("code", {}, kind)), shape(content, api)]),
      h("h3", {}, "Answers"), h("dl", { class: "given" }, Object.entries(request.responses).map(([status, answer]) => response(status, answer, api)))));
}

const parameter = (each, api) => [
  h("dt", {}, h("code", {}, each.name), each.required ? "" : h("span", { class: "soft small" }, " optional")),
  h("dd", {}, h("span", { class: "soft" }, `${each.in}, ${written(each.schema ?? {}, api)}`), each.description && [": ", prose(each.description)])];

function response(status, answer, api) {
  const contents = Object.values(answer.content ?? {}).filter((c) => c.example || c.schema?.$ref || c.schema?.properties);
  return [h("dt", {}, status), h("dd", {}, prose(answer.description), Number(status) < 300 && contents.map((each) => shape(each, api)))];
}

function shape(content, api) {
  const example = content.example ?? Object.values(content.examples ?? {})[0]?.value;
  const text = example === undefined ? written(content.schema ?? {}, api) : typeof example === "string" ? example : JSON.stringify(example, null, 2);
  return h("pre", { class: "mono", tabIndex: 0 }, text);
}

// A schema as one would write it down: {name: type, …}.
function written(schema, api, depth = 0) {
  if (schema.$ref) return written(schema.$ref.slice(2).split("/").reduce((at, part) => at[part], api), api, depth);
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return either.map((each) => written(each, api, depth)).join(" or ");
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return depth < DEEP ? `[${written(schema.items ?? {}, api, depth)}, …]` : "[…]";
  if (schema.properties) return depth < DEEP ? object(schema, api, depth) : "{…}";
  return { object: "an object", null: "nothing", undefined: "anything" }[schema.type] ?? [schema.type, schema.format && `(${schema.format})`].filter(Boolean).join(" ");
}

function object(schema, api, depth) {
  const pad = "  ".repeat(depth + 1);
  const lines = Object.entries(schema.properties).map(([name, each]) =>
    `${pad}${name}${schema.required?.includes(name) ? "" : "?"}: ${written(each, api, depth + 1)}`);
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}

begin();
