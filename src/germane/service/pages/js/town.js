// The map: a canvas with the town below, and everybody on it. Positions arrive from the log; a
// person glides to the newest one. Ripples are messages, beams lead to the people they reach. Words
// give way: faces come first, then titles of messages, names of people, and places.

import { Labels } from "./labels.js";

const TAU = 2 * Math.PI;
const GLIDE_MS = 900;
const SHOWN_MS = 4200;
const NAME = "600 12px system-ui, sans-serif";
const TITLE = "600 13px system-ui, sans-serif";
export const FACES = ["#b3471d", "#2563a8", "#7a3fa0", "#a3246b", "#2f7a35", "#7d5a00"];
const still = matchMedia("(prefers-reduced-motion: reduce)");

export const isPlace = (position) => Array.isArray(position) && position.length === 2 && position.every(Number.isFinite);

export class Town {
  constructor(canvas, map) {
    this.canvas = canvas;
    this.map = map; // {width, height, north, west, metres, districts: {name: {venue: [x, y]}}}
    this.people = new Map(); // id -> {x, y, fromX, fromY, since, lit, named, label, task}
    this.messages = []; // {x, y, title, since, reached: [ids]}
    this.ground = null;
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize());
    this.resize();
    const frame = (now) => {
      requestAnimationFrame(frame);
      this.draw(now);
    };
    requestAnimationFrame(frame);
  }

  resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.ratio = ratio;
    const scale = Math.min(width / this.map.width, height / this.map.height);
    this.scale = scale;
    this.left = (width - this.map.width * scale) / 2;
    this.above = (height - this.map.height * scale) / 2;
    this.ground = null;
    this.small = width < 560;
    this.dot = this.small ? 1.5 : 2.3;
    const style = getComputedStyle(document.documentElement);
    this.colour = Object.fromEntries(["land", "water", "green", "street", "label", "accent", "ink", "card", "soft", "warm"].map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
  }

  // metres of the map from degrees, pixels from metres
  metres([latitude, longitude]) {
    const { north, west, metres } = this.map;
    return [(longitude - west) * metres * Math.cos((north * Math.PI) / 180), (north - latitude) * metres];
  }
  pixels(x, y) {
    return [this.left + x * this.scale, this.above + y * this.scale];
  }
  degrees(px, py) {
    const { north, west, metres, width, height } = this.map;
    const x = Math.min(width, Math.max(0, (px - this.left) / this.scale));
    const y = Math.min(height, Math.max(0, (py - this.above) / this.scale));
    return [Number((north - y / metres).toFixed(6)), Number((west + x / (metres * Math.cos((north * Math.PI) / 180))).toFixed(6))];
  }

  move(id, position, more = {}) {
    const now = performance.now();
    const person = this.people.get(id) ?? { lit: -1e9, fresh: true };
    if (isPlace(position)) {
      const [x, y] = this.metres(position);
      const [fromX, fromY] = person.fresh || still.matches ? [x, y] : this.where(person, now);
      Object.assign(person, { x, y, fromX, fromY, since: now, fresh: false });
    }
    Object.assign(person, more);
    this.people.set(id, person);
  }

  where(person, now) {
    const part = Math.min(1, Math.max(0, now - person.since) / GLIDE_MS);
    return [person.fromX + (person.x - person.fromX) * part, person.fromY + (person.y - person.fromY) * part];
  }

  announce(seq, position, title) {
    const [x, y] = isPlace(position) ? this.metres(position) : [this.map.width / 2, this.map.height / 2];
    this.messages = this.messages.filter((m) => performance.now() - m.since < SHOWN_MS);
    this.messages.push({ seq, x, y, title, since: performance.now(), reached: [] });
  }

  reach(seq, id) {
    const message = this.messages.find((m) => m.seq === seq);
    message?.reached.push(id);
    const person = this.people.get(id);
    if (person) person.lit = performance.now();
  }

  draw(now) {
    const context = this.canvas.getContext("2d");
    if (!this.canvas.width) return;
    this.ground ??= this.paint();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.ground, 0, 0);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const everybody = [...this.people.values()].filter((person) => person.x !== undefined);
    const named = everybody.filter((person) => person.named || person.you);
    const titles = this.messages.filter((message) => now - message.since <= SHOWN_MS);
    this.label(context, named, titles, now);
    this.drawNames(context);
    for (const message of titles) this.drawMessage(context, message, now);
    for (const person of everybody) if (!person.named && !person.you) this.drawWalker(context, person, now);
    for (const person of named) this.drawNamed(context, person, now);
    for (const message of titles) this.drawTitle(context, message, now);
  }

  // Where the words of this frame go.
  label(context, named, titles, now) {
    const labels = (this.labels = new Labels(this.canvas.clientWidth, this.canvas.clientHeight));
    const radius = this.small ? 11 : 15;
    for (const person of named) {
      const [x, y] = (person.at = this.pixels(...this.where(person, now)));
      labels.take([x - radius, y - radius, 2 * radius, 2 * radius]);
    }
    for (const message of titles) this.labelMessage(context, labels, message);
    context.font = NAME;
    for (const person of named) {
      const [x, y] = person.at;
      const long = person.task && !this.small ? `${person.label} · ${person.task}` : person.label;
      const boxes = [long, person.label].flatMap((words) => {
        const wide = context.measureText(words).width + 4;
        return [[x - wide / 2, y + radius, wide, 15], [x - wide / 2, y - radius - 15, wide, 15], [x + radius, y - 8, wide, 15], [x - radius - wide, y - 8, wide, 15]];
      });
      person.side = labels.put(boxes, Math.max(0, person.side ?? 0));
      person.box = boxes[person.side];
      person.words = person.side < 4 ? long : person.label;
    }
  }

  labelMessage(context, labels, message) {
    const [px, py] = this.pixels(message.x, message.y);
    context.font = TITLE;
    const most = this.small ? 30 : 44;
    message.words = message.title.length > most ? `${message.title.slice(0, most - 1)}…` : message.title;
    const wide = context.measureText(message.words).width + 16;
    const boxes = [0.5, 0.15, 0.85].flatMap((share) => {
      const x = Math.max(6, Math.min(px - wide * share, this.canvas.clientWidth - wide - 6));
      return [-40, 15, -68, 43].map((above) => [x, py + above, wide, 25]);
    });
    message.side = labels.put(boxes, Math.max(0, message.side ?? 0));
    message.box = boxes[message.side];
  }

  drawMessage(context, message, now) {
    const age = Math.max(0, now - message.since) / SHOWN_MS; // a frame may have begun before it
    if (age > 1) return;
    const [px, py] = this.pixels(message.x, message.y);
    context.globalAlpha = Math.max(0, 1 - age);
    context.strokeStyle = context.fillStyle = this.colour.warm;
    context.lineWidth = 2;
    const reach = still.matches ? 0.5 : 1 - (1 - age) ** 3;
    for (const ring of [1, 0.6]) {
      context.beginPath();
      context.arc(px, py, 6 + reach * ring * 90, 0, TAU);
      context.stroke();
    }
    context.globalAlpha = Math.max(0, 0.85 * (1 - age * 1.2));
    context.lineWidth = 1.6;
    context.strokeStyle = this.colour.accent;
    context.beginPath();
    for (const id of message.reached) {
      const person = this.people.get(id);
      if (person?.x === undefined) continue;
      const [x, y] = this.pixels(...this.where(person, now));
      context.moveTo(px, py);
      context.lineTo(x, y);
    }
    context.stroke();
    context.globalAlpha = 1;
    context.fillStyle = this.colour.warm;
    context.beginPath();
    context.arc(px, py, 5, 0, TAU);
    context.fill();
  }

  drawTitle(context, message, now) {
    if (!message.box) return; // there is no room, and the list below the map has it
    const age = Math.max(0, now - message.since) / SHOWN_MS; // a frame may have begun before it
    const [x, y, wide, high] = message.box;
    context.font = TITLE;
    context.globalAlpha = Math.min(1, (1 - age) * 3);
    context.fillStyle = this.colour.card;
    context.beginPath();
    context.roundRect(x, y, wide, high, 8);
    context.fill();
    context.strokeStyle = this.colour.warm;
    context.lineWidth = 1;
    context.stroke();
    context.fillStyle = this.colour.ink;
    context.fillText(message.words, x + 8, y + 17);
    context.globalAlpha = 1;
  }

  drawWalker(context, person, now) {
    const [x, y] = this.pixels(...this.where(person, now));
    const lit = Math.min(1, Math.max(0, 1 - (now - person.lit) / 2500));
    context.fillStyle = lit > 0 ? this.colour.accent : this.colour.soft;
    context.globalAlpha = lit > 0 ? 1 : 0.55;
    context.beginPath();
    context.arc(x, y, this.dot + 4.5 * lit, 0, TAU);
    context.fill();
    context.globalAlpha = 1;
  }

  drawNamed(context, person, now) {
    const [x, y] = person.at;
    const lit = Math.min(1, Math.max(0, 1 - (now - person.lit) / 2500));
    const colour = person.you ? "#ffffff" : FACES[person.number % FACES.length];
    if (lit > 0) {
      context.fillStyle = this.colour.accent;
      context.globalAlpha = 0.35 * lit;
      context.beginPath();
      context.arc(x, y, 13 + 14 * lit, 0, TAU);
      context.fill();
      context.globalAlpha = 1;
    }
    context.fillStyle = colour;
    context.strokeStyle = person.you ? "#17201d" : this.colour.card;
    context.lineWidth = person.you ? 3 : 2;
    context.beginPath();
    context.arc(x, y, (person.you ? 11 : 12) * (this.small ? 0.75 : 1), 0, TAU);
    context.fill();
    context.stroke();
    context.font = "700 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillStyle = person.you ? "#17201d" : "#ffffff";
    context.fillText(person.you ? "•" : person.label[0], x, y + 4.5);
    context.textAlign = "start";
    if (!person.box) return; // the letter will do until there is room
    context.font = NAME;
    context.lineWidth = 3.5;
    context.strokeStyle = this.colour.land;
    context.lineJoin = "round";
    context.strokeText(person.words, person.box[0] + 2, person.box[1] + 12);
    context.fillStyle = this.colour.ink;
    context.fillText(person.words, person.box[0] + 2, person.box[1] + 12);
  }

  // The ground, painted once for a size: land, sea, park, streets between venues.
  paint() {
    const ground = document.createElement("canvas");
    ground.width = this.canvas.width;
    ground.height = this.canvas.height;
    const context = ground.getContext("2d");
    context.scale(this.ratio, this.ratio);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    context.fillStyle = this.colour.land;
    context.fillRect(0, 0, width, height);
    this.blob(context, this.colour.water, [[-900, 1560], [230, 1480], [420, 1560], [640, 1520], [860, 1740], [1250, 1830], [1500, 2050], [1500, 3200], [-900, 3200]]);
    context.strokeStyle = this.colour.water;
    context.lineWidth = 70 * this.scale;
    context.lineCap = context.lineJoin = "round";
    this.path(context, [[3900, 80], [3000, 180], [2620, 470], [2080, 620], [1750, 760], [1620, 1130], [1230, 1240], [1080, 1500], [980, 1800]], true);
    context.stroke();
    this.blob(context, this.colour.green, [[1480, 250], [1750, 160], [2150, 130], [2440, 220], [2380, 420], [2050, 520], [1650, 530]]);
    this.blob(context, this.colour.green, [[2020, 1540], [2350, 1400], [2640, 1500], [2560, 1760], [2200, 1840]]);
    this.streets(context);
    this.places = this.names(context);
    return ground;
  }

  path(context, points, open = false) {
    context.beginPath();
    const at = points.map(([x, y]) => this.pixels(x, y));
    const middle = (a, b) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
    if (open) {
      context.moveTo(...at[0]);
      for (let k = 1; k < at.length - 1; k += 1) context.quadraticCurveTo(...at[k], ...middle(at[k], at[k + 1]));
      context.lineTo(...at.at(-1));
      return;
    }
    context.moveTo(...middle(at.at(-1), at[0]));
    at.forEach((point, k) => context.quadraticCurveTo(...point, ...middle(point, at[(k + 1) % at.length])));
    context.closePath();
  }

  blob(context, colour, points) {
    context.fillStyle = colour;
    this.path(context, points);
    context.fill();
  }

  streets(context) {
    const districts = Object.values(this.map.districts).map((venues) => Object.values(venues));
    const centres = districts.map((venues) => [0, 1].map((k) => venues.reduce((sum, v) => sum + v[k], 0) / venues.length));
    context.strokeStyle = this.colour.street;
    const line = (a, b, metres) => {
      context.lineWidth = Math.max(2, metres * this.scale);
      context.beginPath();
      context.moveTo(...this.pixels(...a));
      context.lineTo(...this.pixels(...b));
      context.stroke();
    };
    centres.forEach((a, j) => centres.slice(j + 1).forEach((b) => {
      if (Math.hypot(a[0] - b[0], a[1] - b[1]) < 1150) line(a, b, 34);
    }));
    districts.forEach((venues, j) => venues.forEach((venue) => line(venue, centres[j], 20)));
  }

  // Names of districts and venues: {words, font, x, y, box}, computed once for a size.
  names(context) {
    const names = [];
    const add = (words, size, bold, x, y) => {
      const font = `${bold ? 700 : 400} ${size}px system-ui, sans-serif`;
      context.font = font;
      const wide = context.measureText(words).width;
      names.push({ words, font, bold, x: x - wide / 2, y, box: [x - wide / 2, y - size, wide, size + 3] });
    };
    for (const [district, venues] of Object.entries(this.map.districts)) {
      const points = Object.values(venues);
      const centre = [0, 1].map((k) => points.reduce((sum, v) => sum + v[k], 0) / points.length);
      const top = this.pixels(0, Math.min(...points.map((v) => v[1])) - 95)[1];
      add(district.toUpperCase(), this.small ? 11 : 17, true, this.pixels(...centre)[0], top);
      if (this.small) continue;
      for (const [venue, [x, y]] of Object.entries(venues)) {
        const [px, py] = this.pixels(x, y);
        context.fillStyle = this.colour.label;
        context.beginPath();
        context.arc(px, py, 2.5, 0, TAU);
        context.fill();
        add(venue, 11, false, px, py - 7);
      }
    }
    return names;
  }

  // Those that nobody stands on.
  drawNames(context) {
    context.fillStyle = this.colour.label;
    for (const name of this.places) {
      if (this.labels.put([name.box]) < 0) continue;
      context.globalAlpha = name.bold ? 0.75 : 1;
      context.font = name.font;
      context.fillText(name.words, name.x, name.y);
    }
    context.globalAlpha = 1;
  }
}
