// The socket names the rows that changed, and the page fetches them. Catching up after a lost
// connection fetches the whole list.
import { setServerNow } from "./clock.js";

const LONGEST_WAIT = 10_000; // milliseconds
const POLL_EVERY = 3_000;
const SIGN_OF_LIFE = 20_000;

export function connect(url, { onChanged, onCatchUp }) {
  const sign = document.querySelector("[data-live]");
  const state = sign.querySelector("[role=status]"), age = sign.querySelector("[data-age]");
  let attempt = 0, lastMessage = Date.now(), isLive = false, socket;

  function show() {
    const seconds = Math.round((Date.now() - lastMessage) / 1000);
    const text = isLive ? "Live" : "Not live. Reconnecting…";
    if (state.textContent !== text) state.textContent = text;
    age.textContent = isLive ? "" : `last update ${seconds} s ago`;
    sign.classList.toggle("off", !isLive);
  }

  async function catchUp() {
    if (await onCatchUp()) lastMessage = Date.now();
    show();
  }

  function open() {
    socket = new WebSocket(url);
    socket.onopen = () => { attempt = 0; };
    socket.onmessage = (message) => {
      const update = JSON.parse(message.data);
      setServerNow(update.now);
      lastMessage = Date.now();
      if (!isLive) { isLive = true; catchUp(); }
      else if (update.is_everything) catchUp();
      else if (update.changed.length) onChanged(update.changed);
      show();
    };
    socket.onclose = (end) => {
      isLive = false;
      show();
      if (end.code === 4401) { location.reload(); return; }
      attempt += 1;
      setTimeout(open, Math.min(LONGEST_WAIT, 250 * 2 ** attempt) * (0.7 + Math.random() * 0.3));
    };
  }

  setInterval(() => { if (!isLive && !document.hidden) catchUp(); }, POLL_EVERY);
  setInterval(() => { if (socket.readyState === WebSocket.OPEN) socket.send("{}"); }, SIGN_OF_LIFE);
  setInterval(() => { if (!isLive) show(); }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) catchUp(); });
  setTimeout(() => { if (!isLive) show(); }, 1500);
  open();
}
