// Notifications: asks the browser for permission, keeps its subscription, and shows what waits
// while the desk is open in a hidden tab and this browser has no push.
const $ = (selector, root = document) => root.querySelector(selector);
const { person, pushKey } = document.body.dataset;
const canShow = "serviceWorker" in navigator && "Notification" in window && window.isSecureContext;
const canPush = canShow && "PushManager" in window && Boolean(pushKey);

const csrf = () => JSON.parse(document.body.getAttribute("hx-headers") || "{}");
const post = (address, fields) => fetch(address, {
  method: "POST", headers: csrf(), body: new URLSearchParams(fields),
});

function keyBytes(text) {
  const padded = text.replace(/-/g, "+").replace(/_/g, "/").padEnd(Math.ceil(text.length / 4) * 4, "=");
  return Uint8Array.from(atob(padded), (letter) => letter.charCodeAt(0));
}

const fieldsOf = (subscription) => {
  const { endpoint, keys } = subscription.toJSON();
  return { endpoint, p256dh: keys.p256dh, auth: keys.auth };
};

const registered = canShow
  ? navigator.serviceWorker.register("/service-worker.js", { scope: "/" }).then(() => navigator.serviceWorker.ready)
  : Promise.reject(new Error("no service worker"));
registered.catch(() => {});

const subscription = async () => (canPush ? (await registered).pushManager.getSubscription() : null);

// --- turning it on ------------------------------------------------------------------------------

function say(word) {
  for (const state of document.querySelectorAll("[data-told-state]")) {
    if (state.dataset[word]) state.textContent = state.dataset[word];
  }
}

async function turnOn() {
  if (await Notification.requestPermission() !== "granted") return "denied";
  const { pushManager } = await registered;
  const former = await pushManager.getSubscription();
  const mine = former ?? await pushManager.subscribe({
    userVisibleOnly: true, applicationServerKey: keyBytes(pushKey),
  });
  const answer = await post("/account/notifications/browsers", fieldsOf(mine));
  return answer.ok ? "on" : "failed";
}

async function onTurnOn(button) {
  button.disabled = true;
  let result = "failed";
  try { result = await turnOn(); } catch { /* the push service did not answer */ }
  say(result);
  button.disabled = false;
  if (result !== "on") return;
  button.hidden = true;
  const bar = button.closest("[data-tell-me]");
  if (bar) { $("form", bar).hidden = true; $("[data-told-more]", bar).hidden = false; }
  else location.reload();
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-tell-on]");
  if (button) onTurnOn(button);
});

async function showState() {
  const bar = $("[data-tell-me]"), button = $("[data-told-state] ~ .buttons [data-tell-on]");
  if (!canPush) { say("missing"); return; }
  if (bar) bar.hidden = Notification.permission === "denied";
  if (Notification.permission === "denied") { say("denied"); return; }
  const isOn = Notification.permission === "granted" && await renew();
  say(isOn ? "on" : "off");
  if (button) button.hidden = isOn;
  if (bar && isOn) bar.hidden = true;
}

// A new session, or a new password, takes over the browser that was known as this person's.
async function renew() {
  const mine = await subscription();
  if (!mine) return false;
  return (await post("/account/notifications/browsers", { ...fieldsOf(mine), renew: "1" })).ok;
}

// --- while the desk is open, but hidden ------------------------------------------------------------

const told = new Set();

async function tellOf(ids) {
  if (!document.hidden || !canShow || Notification.permission !== "granted") return;
  if (await subscription().catch(() => null)) return; // push tells already
  const answer = await fetch(`/account/notifications/due?${ids.map((id) => `id=${id}`).join("&")}`);
  if (!answer.ok) return;
  const { show } = await answer.json(), registration = await registered;
  for (const { title, body, tag, address, silent } of show) {
    if (told.has(tag)) continue;
    told.add(tag);
    await registration.showNotification(title, { body, tag, silent, data: { address } });
  }
  await withdraw(registration, ids.map((id) => id.replaceAll("-", "")), show.map(({ tag }) => tag));
}

async function withdraw(registration, changed, waiting) {
  for (const shown of await registration.getNotifications()) {
    if (changed.includes(shown.tag) && !waiting.includes(shown.tag)) shown.close();
  }
}

// --- installing: the browser says when it can -----------------------------------------------------

addEventListener("beforeinstallprompt", (offer) => {
  const place = $("[data-install]");
  if (!place) return;
  offer.preventDefault();
  place.hidden = false;
  $("button", place).addEventListener("click", () => { place.hidden = true; offer.prompt(); }, { once: true });
});

// --- the icon's badge, and signing out ----------------------------------------------------------

function showBadge() {
  const number = Number($("[data-waiting]")?.textContent || 0);
  if (number) navigator.setAppBadge?.(number)?.catch?.(() => {});
  else navigator.clearAppBadge?.()?.catch?.(() => {});
}

async function forget() {
  const registration = await registered;
  for (const shown of await registration.getNotifications()) shown.close();
  await (await registration.pushManager.getSubscription())?.unsubscribe();
}

if (person) {
  document.addEventListener("desk:changed", ({ detail }) => tellOf(detail.slice(0, 20)).catch(() => {}));
  document.addEventListener("submit", ({ target }) => {
    if (target.matches("[data-sign-out]")) { navigator.clearAppBadge?.(); forget().catch(() => {}); }
  });
  const waiting = $("[data-waiting]");
  if (waiting) new MutationObserver(showBadge).observe(waiting, { childList: true, characterData: true, subtree: true });
  showBadge();
  showState().catch(() => say("off"));
}
