// The service's HTTP API: one function to call it, one to follow a stream of deliveries.

// A page may keep a session of its own: the demo and the console are an operator's.
const KEPT = document.documentElement.dataset.session ?? "germane.session";
export const session = { token: null, role: null, subject: null, tenant: null };

export class Problem extends Error {
  constructor(status, body) {
    super(body?.error ?? body?.detail ?? `the service answered ${status}`);
    this.status = status;
    this.position = body?.position ?? null;
  }
}

// Nobody answered. Browsers say so each in its own words, and none for people.
export class Unreached extends Error {}

function unreached(error) {
  if (error.name === "AbortError" || error.name === "TimeoutError") return error;
  const words = navigator.onLine ? "germane cannot be reached; try again in a moment." : "You are offline.";
  return new Unreached(words, { cause: error });
}

// A link may bring a token in its fragment, which browsers send to nobody; it is taken out at once.
// Whether it is another one than before: the link of who is signed in changes nothing.
export function takeToken() {
  try {
    Object.assign(session, JSON.parse(localStorage.getItem(KEPT) ?? "{}"));
  } catch {
    localStorage.removeItem(KEPT);
  }
  const link = new URLSearchParams(location.hash.slice(1));
  const given = link.get("token");
  if (!given) return false;
  const to = link.get("to"); // a page
  history.replaceState(null, "", location.pathname + location.search + (to ? `#${to}` : ""));
  if (given === session.token) return false;
  keep({ token: given, role: null, subject: null });
  return true;
}

// Another link, pasted into this tab.
addEventListener("hashchange", () => location.hash.startsWith("#token=") && location.reload());

export function keep(values) {
  Object.assign(session, values);
  localStorage.setItem(KEPT, JSON.stringify(session));
}

export function forget() {
  Object.assign(session, { token: null, role: null, subject: null });
  localStorage.removeItem(KEPT);
}

// Tells when another tab signs out, or somebody else in there: with the token that is kept now.
export function onOther(tell) {
  addEventListener("storage", (e) => {
    if (e.key !== KEPT && e.key !== null) return;
    const { token = null } = JSON.parse(e.newValue ?? "{}");
    if (session.token && token !== session.token) tell(token);
  });
}

export async function whoAmI() {
  const me = await call("GET", "/me");
  keep({ ...me, subject: me.subject ?? session.subject }); // who has none may have chosen one
  return session;
}

async function exchange(path, options) {
  try {
    const answer = await fetch(path, options);
    return [answer, await answer.text()];
  } catch (error) {
    throw unreached(error);
  }
}

// A refused token is told to the page, too ("germane:refused"), whoever asked.
export async function call(method, path, body, { signal, headers } = {}) {
  const { token } = session;
  const [answer, text] = await exchange(path, {
    method,
    signal,
    cache: "no-store",
    headers: {
      Authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.status === 401 && token === session.token) dispatchEvent(new Event("germane:refused"));
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = { error: text.slice(0, 200) };
  }
  if (!answer.ok) throw new Problem(answer.status, value);
  return value;
}

export const get = (path, options) => call("GET", path, undefined, options);

// Follow a stream of server-sent events, for ever: `after()` says where to go on, so that a lost
// connection resumes behind the last event that was kept. A device that goes offline does not end
// its connections: they are cut here. Resolves when `signal` aborts.
export async function follow(path, { after, onEvent, onState, signal }) {
  let pause = 500;
  while (!signal.aborted) {
    const one = new AbortController();
    const cut = () => one.abort();
    signal.addEventListener("abort", cut);
    addEventListener("offline", cut);
    try {
      const from = await after();
      const answer = await fetch(path, {
        signal: one.signal,
        cache: "no-store",
        headers: {
          Authorization: `Bearer ${session.token}`,
          Accept: "text/event-stream",
          ...(from >= 0 ? { "Last-Event-ID": String(from) } : {}), // without one: from now on
        },
      });
      if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => null));
      onState("live");
      pause = 500;
      for await (const event of events(answer.body, signal)) await onEvent(event);
    } catch (error) {
      if (signal.aborted) return;
      onState(error instanceof Problem ? "refused" : navigator.onLine ? "lost" : "offline", error);
      if (error.status === 401 || error.status === 404) return;
    } finally {
      signal.removeEventListener("abort", cut);
      removeEventListener("offline", cut);
    }
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(pause * 2, 15000);
  }
}

async function* events(stream, signal) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let silence;
  // The service sends a comment every 15 s: a longer silence is a dead connection.
  const watch = () => {
    clearTimeout(silence);
    silence = setTimeout(() => reader.cancel().catch(() => {}), 40000);
  };
  try {
    watch();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || signal.aborted) return;
      watch();
      const blocks = (rest + value.replaceAll("\r\n", "\n")).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parsed(block);
        if (event) yield event;
      }
    }
  } finally {
    clearTimeout(silence);
    reader.cancel().catch(() => {});
  }
}

function parsed(block) {
  const event = { id: null, event: "message", data: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith(":")) continue;
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "data") event.data += (event.data ? "\n" : "") + value;
    else if (field in event) event[field] = value;
  }
  return event.data ? event : null;
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      removeEventListener("online", finish);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    addEventListener("online", finish);
    signal.addEventListener("abort", finish);
  });
}
