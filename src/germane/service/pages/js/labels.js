// Words on a map that never cover each other: boxes that are taken, and who may still be put where.

const free = (a, b) => a[0] + a[2] <= b[0] || b[0] + b[2] <= a[0] || a[1] + a[3] <= b[1] || b[1] + b[3] <= a[1];

export class Labels {
  constructor(width, height) {
    this.taken = []; // [x, y, width, height]
    this.width = width;
    this.height = height;
  }

  take(box) {
    this.taken.push(box);
  }

  fits(box) {
    const inside = box[0] >= 0 && box[1] >= 0 && box[0] + box[2] <= this.width && box[1] + box[3] <= this.height;
    return inside && this.taken.every((other) => free(box, other));
  }

  // Take the first of some boxes that fits, the one that was taken last time before others, so that
  // nothing jumps; its number, or -1 if none does.
  put(boxes, before = 0) {
    const order = [before, ...boxes.keys()];
    const chosen = order.find((k) => boxes[k] && this.fits(boxes[k]));
    if (chosen === undefined) return -1;
    this.take(boxes[chosen]);
    return chosen;
  }
}
