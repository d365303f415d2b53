// What the client has when there is no network: deliveries, the cursor behind them, what to send.
// A delivery and the cursor are written in one transaction, so that a page that is closed at any
// moment resumes with nothing lost and nothing doubled.

const NEWEST = 500; // deliveries that stay
const KEPT = 5000; // and of those that somebody kept
const PLACES = "germane.places";
let opening;
let closed = false;

function open() {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("germane", 1);
    request.onupgradeneeded = () => {
      const db = request.result;
      db.createObjectStore("deliveries", { keyPath: "id" });
      db.createObjectStore("values");
      db.createObjectStore("outbox", { autoIncrement: true });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opening;
}

async function inside(stores, mode, work) {
  if (closed) return new Promise(() => {});
  const db = await open();
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(stores, mode);
    let result;
    transaction.oncomplete = () => resolve(result);
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
    result = work(...stores.map((name) => transaction.objectStore(name)));
    if (result instanceof IDBRequest) result.onsuccess = () => (result = result.result);
  });
}

export const read = (name) => inside(["values"], "readonly", (values) => values.get(name));
export const write = (name, value) => inside(["values"], "readwrite", (values) => void values.put(value, name));

export const deliveries = () => inside(["deliveries"], "readonly", (store) => store.getAll());
export const cursor = async () => (await read("cursor")) ?? 0;

export const receive = (delivery) =>
  inside(["deliveries", "values"], "readwrite", (store, values) => {
    const had = store.get(delivery.id);
    had.onsuccess = () => had.result || store.put(delivery); // another tab may have it, and marked it
    values.put(delivery.id, "cursor");
  });

export const change = (delivery) => inside(["deliveries"], "readwrite", (store) => void store.put(delivery));

export const prune = () =>
  inside(["deliveries"], "readwrite", (store) => {
    const request = store.getAllKeys();
    request.onsuccess = () => {
      const ids = request.result;
      if (ids.length > NEWEST) pruneUpTo(store, ids[ids.length - NEWEST - 1]);
    };
  });

function pruneUpTo(store, last) {
  const request = store.getAll(IDBKeyRange.upperBound(last));
  request.onsuccess = () => {
    const old = request.result;
    const kept = new Set(old.filter((item) => item.marks?.kept && !item.marks.gone).slice(-KEPT));
    for (const item of old) if (!kept.has(item)) store.delete(item.id);
  };
}

export const post = (item) => inside(["outbox"], "readwrite", (outbox) => void outbox.add(item));

// Hand every waiting item to `send`, oldest first; stop at the first that cannot be sent now, and
// say whether all are gone.
export async function flush(send) {
  const keys = await inside(["outbox"], "readonly", (outbox) => outbox.getAllKeys());
  for (const key of keys) {
    const item = await inside(["outbox"], "readonly", (outbox) => outbox.get(key));
    if (item && !(await send(item))) return false;
    await inside(["outbox"], "readwrite", (outbox) => void outbox.delete(key));
  }
  return true;
}

// The places where somebody was, the last one first.
export const places = () => JSON.parse(localStorage.getItem(PLACES) ?? "[]");
export const keepPlaces = (names) => localStorage.setItem(PLACES, JSON.stringify(names));

export function clear() {
  localStorage.removeItem(PLACES);
  return inside(["deliveries", "values", "outbox"], "readwrite", (...stores) => stores.forEach((s) => s.clear()));
}

// From now on nothing is read or written: what is still under way belongs to whoever signed out.
export function close() {
  closed = true;
}
