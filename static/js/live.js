// The socket names the rows that changed, and has them where many pages show the same; else the
// page fetches them. Both sides give signs of life;
// without one for a while the page says that it is not live, and asks by itself.
import { setServerNow } from "./clock.js";
import { $ } from "./page.js";
import { word } from "./words.js";

const LONGEST_WAIT = 5_000; // milliseconds before another attempt to connect
const POLL_EVERY = 3_000;
const SIGN_OF_LIFE = 20_000;
const SILENT_AFTER = 25_000; // the server says something every ten seconds

// onChanged(ids, html): these rows changed; html is empty or has them. onCatchUp(since): something may have been missed since then.
export function connect(url, { onChanged, onCatchUp, onEnded }) {
  const sign = $("[data-live]"), state = $("[role=status]", sign), age = $("[data-age]", sign);
  age.setAttribute("aria-hidden", "true"); // it counts seconds; the state is announced once
  let since = document.body.dataset.now; // the server's time until which nothing was missed
  let attempt = 0, heardAt = Date.now(), told = 0, isLive = false, socket = null, again = null;

  function show() {
    const text = isLive ? word("live") : word("not_live");
    if (state.textContent !== text) state.textContent = text;
    const seconds = Math.round((Date.now() - heardAt) / 1000);
    age.textContent = isLive ? "" : word("last_update", { seconds });
    sign.classList.toggle("off", !isLive);
  }

  async function catchUp(now) {
    if (await onCatchUp(since)) { heardAt = Date.now(); if (now) since = now; }
    show();
  }

  function hear({ changed, rows, is_everything: isEverything, now, n }) {
    setServerNow(now);
    heardAt = Date.now();
    const isFirst = !isLive, isGap = n !== told + (changed.length > 0);
    told = n;
    isLive = true;
    if (isEverything) { since = ""; catchUp(now); }
    else if (isFirst || isGap) catchUp(now);
    else if (changed.length) Promise.resolve(onChanged(changed, rows)).then((isDone) => { if (isDone) since = now; });
    else since = now;
    show();
  }

  function lose() {
    isLive = false;
    show();
    clearTimeout(again);
    attempt += 1;
    again = setTimeout(open, Math.min(LONGEST_WAIT, 250 * 2 ** attempt) * (0.7 + Math.random() * 0.3));
  }

  function open() {
    clearTimeout(again);
    const mine = socket = new WebSocket(url);
    told = 0;
    mine.onopen = () => { attempt = 0; };
    mine.onmessage = (message) => { if (socket === mine) hear(JSON.parse(message.data)); };
    mine.onclose = (end) => {
      if (socket !== mine) return;
      if (end.code === 4401) { onEnded(); return; }
      lose();
    };
  }

  // A socket that is silent may be dead without knowing; its closing may take minutes.
  function abandon() {
    const silent = socket;
    socket = null;
    silent.onclose = silent.onmessage = null;
    silent.close();
    lose();
    catchUp();
  }

  setInterval(() => {
    if (isLive && Date.now() - heardAt > SILENT_AFTER) abandon();
    else if (!isLive) show();
  }, 1000);
  setInterval(() => { if (!isLive && !document.hidden) catchUp(); }, POLL_EVERY);
  setInterval(() => { if (socket?.readyState === WebSocket.OPEN) socket.send("{}"); }, SIGN_OF_LIFE);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && Date.now() - heardAt > 11_000) catchUp(); });
  window.addEventListener("online", () => { attempt = 0; if (!isLive) open(); });
  window.addEventListener("offline", () => { if (isLive) abandon(); });
  window.addEventListener("pagehide", () => { if (socket) socket.onclose = null; });
  setTimeout(() => { if (!isLive) show(); }, 1500);
  open();
}
