// Shows notifications, and says that the network is gone. It keeps static files and one page
// without data; every other request goes to the server as if this script were not there.
"use strict";
const VERSION = "assent-{{ version|escapejs }}";
const OFFLINE = "{{ offline|escapejs }}";
const ICON = "{{ icon|escapejs }}";
const FILES = [{% for file in files %}"{{ file|escapejs }}", {% endfor %}];

self.addEventListener("install", (event) => {
  const keep = async () => {
    const cache = await caches.open(VERSION);
    await cache.addAll([OFFLINE, ...FILES].map((path) => new Request(path, { cache: "reload" })));
    await self.skipWaiting();
  };
  event.waitUntil(keep());
});

self.addEventListener("activate", (event) => {
  const tidy = async () => {
    for (const name of await caches.keys()) if (name !== VERSION) await caches.delete(name);
    await self.clients.claim();
  };
  event.waitUntil(tidy());
});

self.addEventListener("fetch", (event) => {
  const path = new URL(event.request.url).pathname;
  if (event.request.mode === "navigate") {
    event.respondWith(fetch(event.request).catch(() => caches.match(OFFLINE)));
  } else if (FILES.includes(path)) {
    event.respondWith(fetch(event.request).catch(() => caches.match(path)));
  }
});

function show({ title, body, tag, address = "/", silent = true, again = false }) {
  const options = { body, tag, silent, icon: ICON, badge: ICON, data: { address } };
  return self.registration.showNotification(title, again ? { ...options, renotify: true } : options);
}

async function take(message) {
  if (message.show) return show(message.show);
  if (message.instead) return show(message.instead);
  for (const shown of await self.registration.getNotifications({ tag: message.close })) shown.close();
}

// One after the other, so that what came last is what stays on the screen.
let taken = Promise.resolve();

self.addEventListener("push", (event) => {
  let message = {};
  try { message = event.data.json(); } catch { return; }
  taken = taken.catch(() => {}).then(() => take(message));
  event.waitUntil(taken);
});

// A click opens the item. There is no other button: nobody decides on what a notification shows.
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const open = async () => {
    const address = new URL(event.notification.data?.address ?? "/", self.location.origin);
    if (address.origin !== self.location.origin) return;
    for (const page of await self.clients.matchAll({ type: "window" })) {
      if (new URL(page.url).pathname === address.pathname) return page.focus();
    }
    return self.clients.openWindow(address.href);
  };
  event.waitUntil(open());
});
