// What is wrong with a condition, for people: the service's sentence without what is meant for
// programs, and the condition with the place marked.

import { h } from "./dom.js";

const AROUND = 40; // characters that are shown before the marked place

export function fault(condition, error, known) {
  const words = sentence(error.message, known);
  if (error.position === null || error.position === undefined || !condition.trim()) return [words];
  return [words, " ", h("code", {}, marked([...condition], error.position))];
}

// What the service says, without what is meant for programs.
export function sentence(message, known) {
  const [line] = message.split("\n");
  const plain = line.replace(/ ?\((at|since) (position|profile) [^)]*\)/g, "")
    .replace(/^(\w+) takes a category, and has no graph yet: pass graphs=\{'(.*)': .*$/, (_, operator, name) => uncategorised(operator, name, known))
    .replace(/^attribute '(.*?)': unknown node '(.*?)'/, "there is no $1 “$2”")
    .replace(/^unknown node '(.*?)'/, "there is no “$1”")
    .replace(/^attribute '(.*?)'/, "“$1”")
    .replace(/^(expected .*), found the end$/, "something is missing at the end: $1");
  return `${plain[0].toUpperCase()}${plain.slice(1)}${/[.?!]$/.test(plain) ? "" : "."}`;
}

function uncategorised(operator, name, known) {
  const categories = [...(known?.attributes ?? [])].filter(([, each]) => each.type === "category").map(([each]) => each);
  const instead = categories.length ? `, such as ${categories.slice(0, 3).join(" or ")}` : "";
  return `“${name}” has no categories: ${operator} needs something that has${instead}`;
}

// The service counts characters, of which some take two units of a string here.
function marked(characters, position) {
  const at = Math.min(position, characters.length);
  const from = Math.max(0, at - AROUND);
  const rest = characters.slice(at).join("");
  const [word] = /^('[^']*'?|[\p{L}\p{N}_]+|.)?/su.exec(rest);
  const after = [...rest.slice(word.length)].slice(0, AROUND).join("");
  return [from ? "…" : "", characters.slice(from, at).join(""), h("mark", {}, word.trim() || "?"), after];
}
