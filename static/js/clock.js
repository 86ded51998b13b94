// One timer for every countdown on the page, by the server's clock.
let offset = 0; // milliseconds that the server's clock is ahead of ours

export const serverNow = () => Date.now() + offset;
export const setServerNow = (iso) => { if (iso) offset = Date.parse(iso) - Date.now(); };

const two = (number) => String(number).padStart(2, "0");

function left(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 0) return "time is up";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)} left`;
  return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} left`;
}

function ago(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const lateness = (milliseconds) => (milliseconds < 60_000 ? "late" : milliseconds < 300_000 ? "soon" : "");

export function tick() {
  const now = serverNow();
  for (const time of document.querySelectorAll("time[data-until]")) {
    const rest = Date.parse(time.dateTime) - now;
    set(time, left(rest));
    time.className = lateness(rest);
  }
  for (const time of document.querySelectorAll("time[data-since]")) {
    set(time, ago(now - Date.parse(time.dateTime)));
  }
  for (const drain of document.querySelectorAll(".drain")) {
    const from = Date.parse(drain.dataset.from), until = Date.parse(drain.dataset.until);
    const share = Math.min(1, Math.max(0, (until - now) / (until - from)));
    drain.style.setProperty("--share", share.toFixed(3));
    drain.className = `drain ${lateness(until - now)}`;
  }
  expireWhileReading(now);
}

// When the time runs out while somebody reads the item: disable the buttons that would fail.
function expireWhileReading(now) {
  const item = document.querySelector("[data-item][data-waits]");
  const time = item?.querySelector("time[data-until]");
  if (!time || Date.parse(time.dateTime) > now || item.dataset.expired) return;
  item.dataset.expired = "1";
  for (const button of item.querySelectorAll(".decide button, dialog .primary")) button.disabled = true;
  const note = document.createElement("p");
  note.className = "quiet-text";
  note.setAttribute("role", "status");
  note.textContent = item.dataset.waits;
  item.querySelector(".decide").append(note);
}
