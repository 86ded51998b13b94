// Times on the page: one timer for every countdown, by the server's clock; absolute times in the
// zone and the formats of the reader.
import { word } from "./words.js";

let offset = 0; // milliseconds that the server's clock is ahead of ours

export const serverNow = () => Date.now() + offset;
export const setServerNow = (iso) => { if (iso) offset = Date.parse(iso) - Date.now(); };

const page = document.documentElement;
const browsersZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const timeZone = page.dataset.timeZone || browsersZone;
const isSameLanguage = navigator.language.split("-")[0] === page.lang.split("-")[0];
const formats = page.dataset.formats || (isSameLanguage ? navigator.language : page.lang);

// So that the server writes the same times before any script runs.
if (browsersZone && !document.cookie.includes(`time_zone=${browsersZone};`)) {
  document.cookie = `time_zone=${browsersZone}; path=/; max-age=31536000; samesite=lax`;
}

function written(fields) {
  try { return new Intl.DateTimeFormat(formats, { timeZone, ...fields }); }
  catch { return new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...fields }); }
}
const two = "2-digit";
const day = written({ year: "numeric", month: two, day: two });
const clockOfDay = written({ hour: two, minute: two, second: two });
const dayAndTime = { weekday: "short", day: "numeric", month: "short", hour: two, minute: two };
const thisYear = written(dayAndTime), anyYear = written({ ...dayAndTime, year: "numeric" });
const exact = written({ ...dayAndTime, year: "numeric", second: two, timeZoneName: "short" });

export function absolute(at, now) {
  if (day.format(at) === day.format(now)) return clockOfDay.format(at);
  return (at.getFullYear() === now.getFullYear() ? thisYear : anyYear).format(at);
}

export function countdown(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000)), pad = (number) => String(number).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${pad(seconds % 60)}`;
  return `${Math.floor(seconds / 3600)} h ${pad(Math.floor((seconds % 3600) / 60))}`;
}

function left(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000), minutes = Math.floor(seconds / 60);
  if (seconds < 0) return word("time_is_up");
  if (seconds < 3600) return word("minutes_left", { minutes: countdown(milliseconds) });
  const rest = String(minutes % 60).padStart(2, "0"), hours = Math.floor(minutes / 60);
  if (hours >= 48) return word("days_left", { days: Math.floor(hours / 24), hours: hours % 24 });
  return word("hours_left", { hours, minutes: rest });
}

function ago(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 60) return word("just_now");
  if (seconds < 3600) return word("minutes_ago", { count: Math.floor(seconds / 60) });
  if (seconds < 86400) return word("hours_ago", { count: Math.floor(seconds / 3600) });
  return word("days_ago", { count: Math.floor(seconds / 86400) });
}

const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const lateness = (milliseconds) => (milliseconds < 60_000 ? "late" : milliseconds < 300_000 ? "soon" : "");

// On hover: the instant where the reader is, and in UTC.
function explain(time, at) {
  if (time.dataset.explained === time.dateTime) return;
  time.dataset.explained = time.dateTime;
  const utc = at.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
  time.title = `${exact.format(at)} · ${utc}`;
}

export function tick() {
  const now = serverNow();
  for (const time of document.querySelectorAll("time[data-until], time[data-since], time[data-at]")) {
    const at = new Date(time.dateTime);
    explain(time, at);
    if ("until" in time.dataset) {
      set(time, left(at - now));
      time.className = lateness(at - now);
    } else set(time, "since" in time.dataset ? ago(now - at) : absolute(at, new Date(now)));
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
