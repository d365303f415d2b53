// The page's own files, kept so that it opens without a network. Data is not kept here: the page
// keeps it in IndexedDB, and requests to the API pass by untouched.

const CACHE = "germane-shell";
const SHELL = [
  "./", "css/base.css", "css/client.css", "icon.svg", "manifest.webmanifest",
  ...["client", "api", "dom", "store", "conditions", "mailbox", "inbox", "now", "subscriptions", "editor", "faults", "settings"]
    .map((name) => `js/${name}.js`),
];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(SHELL)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  const scope = new URL(self.registration.scope);
  if (event.request.method !== "GET" || url.origin !== scope.origin || !url.pathname.startsWith(scope.pathname)) return;
  event.respondWith(fresh(event.request));
});

// From the network if it answers soon, else what was kept: a page is never older than needed.
async function fresh(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request, { ignoreSearch: true });
  try {
    const answer = await fetch(request, { cache: "no-cache", signal: kept ? AbortSignal.timeout(3000) : undefined });
    if (answer.ok && !answer.redirected) await cache.put(request, answer.clone());
    return answer;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}
