// Live line charts: uPlot with the page's colours, each line with its own dash so that no one has
// to tell colours apart.

import { h, number, show, svg } from "./dom.js";

const DASHES = [[], [7, 4], [2, 3]];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colours = () => [css("--accent"), css("--warm"), css("--third")];

// lines: [{label, key, digits}]; points are objects with `at` (seconds) and the keys.
export function chart(title, words, lines, { digits = 0, unit = "" } = {}) {
  const plot = h("div", { class: "plot" });
  const keys = h("ul", { class: "keys" });
  const card = h("section", { class: "card chart", role: "group", "aria-label": title },
    h("h2", {}, title), h("p", { class: "soft small" }, words), keys, plot);
  let drawn = null;

  function make(data) {
    const colour = colours();
    const grid = { stroke: css("--line"), width: 1 };
    const axis = { stroke: css("--soft"), grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    drawn = new uPlot({
      width: plot.clientWidth || 320, height: 190,
      cursor: { y: false }, legend: { show: false },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, space: 80, size: 28, values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" })) },
        { ...axis, size: 58, values: (_, ticks) => ticks.map((t) => number(t, 2)) },
      ],
      series: [{}, ...lines.map((line, k) => ({ label: line.label, stroke: colour[k], width: 2, dash: DASHES[k], spanGaps: true, points: { show: false }, fill: k === 0 ? `${colour[k]}18` : undefined }))],
    }, data, plot);
  }

  new ResizeObserver(() => drawn?.setSize({ width: plot.clientWidth, height: 190 })).observe(plot);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawn?.destroy();
    drawn = null;
  });

  return {
    card,
    update(points) {
      const data = [points.map((p) => p.at), ...lines.map((l) => points.map((p) => p[l.key] ?? null))];
      if (!drawn) make(data);
      else drawn.setData(data);
      const last = (key) => points.findLast((p) => p[key] !== undefined && p[key] !== null)?.[key];
      show(keys, lines.map((line, k) => {
        const sample = svg("svg", { "aria-hidden": "true" }, svg("line", { x1: 0, y1: 6, x2: 26, y2: 6, "stroke-width": 2.5, "stroke-dasharray": DASHES[k].join(" "), stroke: colours()[k] }));
        return h("li", {}, sample, `${line.label} `, h("b", {}, `${number(last(line.key), digits)}${unit}`));
      }));
    },
  };
}
