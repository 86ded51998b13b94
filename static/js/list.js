// The list of the inbox. Nothing in it moves while the pointer or the focus is there: what arrives
// is held back and counted in a button, what ended stays where it is.
import { countdown, serverNow, tick } from "./clock.js";
import { count } from "./count.js";
import { $, $$, announce, fetchFragment, fetchPart, parsed } from "./page.js";
import { counted, word } from "./words.js";

let refreshAfter = 2_000; // milliseconds, for rows that are only counted; longer among many desks
const FADE_AFTER = 6_000; // that a row decided elsewhere stays
const IDLE_AFTER = 10_000; // without a movement, somebody's pointer is only parked there

const held = new Map(); // rows that arrived meanwhile, by id
const ended = new Set(); // rows that are to leave
let isInside = false, lastMove = 0;
let onChange = () => {};

export const listBox = () => $(".list-box");
const isFocused = () => $("#list")?.contains(document.activeElement);
const isUsed = () => (isInside || isFocused()) && Date.now() - lastMove < IDLE_AFTER;
const moved = () => { lastMove = Date.now(); };

// --- rows ---------------------------------------------------------------------------------------

export const waitingRows = () => $$("#list .row:not(.decided, .lapsed)");
export const rowsForMe = () => waitingRows().filter((row) => row.dataset.group === "mine");
export const rowWith = (id) => document.getElementById(`row-${id}`);

function countGroups() {
  for (const section of $$("#list [data-group]:not(.row)")) {
    const rows = $$(".row:not(.decided, .lapsed)", section).length;
    const total = rows + Number(section.dataset.rest || 0);
    section.hidden = !total && !$(".row:not(.lapsed)", section);
    $("[data-group-count]", section).textContent = total;
  }
  const empty = $("[data-empty]");
  if (empty) empty.hidden = $$("#list .row:not(.lapsed), #list .check").length > 0;
  const lapsed = $$("#list .row.lapsed").length, note = $("[data-lapsed]");
  if (!note) return;
  note.hidden = !lapsed;
  if (lapsed) $("span", note).textContent = counted("just_expired", lapsed);
}

const sectionOf = (row) => $(`#list section[data-group="${row.dataset.group}"]`);
const endOfList = () => $("#list [data-further]")?.dataset.further ?? "";
const isBeyond = (row) => endOfList() !== "" && row.dataset.order > endOfList();

function place(row) {
  const list = $("ul", sectionOf(row));
  const before = [...list.children].find((other) => other.dataset.order > row.dataset.order);
  list.insertBefore(row, before ?? null);
}

function insert(row, isNew) {
  if (isBeyond(row)) { row.remove(); refreshListSoon(); return; }
  place(row);
  if (isNew) row.classList.add("in");
}

function patchRow(row) {
  const old = document.getElementById(row.id), waits = row.dataset.waitingRow === "1";
  const id = row.dataset.id;
  if (!waits && !old) { held.delete(id); return; }
  if (old) {
    if (!waits) row.dataset.group = old.dataset.group;
    row.style.containIntrinsicBlockSize = old.style.containIntrinsicBlockSize;
    old.replaceWith(row);
    if (!waits) setTimeout(() => leave(row), FADE_AFTER);
    else if (old.dataset.order !== row.dataset.order && !isUsed()) insert(row, false);
    return;
  }
  const isNew = !held.has(id);
  if (isUsed()) held.set(id, row);
  else { held.delete(id); insert(row, true); }
  if (isNew) announce(word("new_row", { summary: $("strong", row).textContent }));
}

function leave(row) {
  if (!row.isConnected) return;
  if (isUsed()) { ended.add(row.dataset.id); return; }
  row.classList.add("leaving");
  setTimeout(() => { row.remove(); changed(); if ($("[data-more]")) refreshListSoon(); }, 150);
}

// Everything that waited until nobody's pointer is in the list.
export function release() {
  for (const row of held.values()) insert(row, true);
  held.clear();
  for (const row of $$("#list .row")) {
    const isWrong = row.closest("section").dataset.group !== row.dataset.group
      || row.nextElementSibling?.dataset.order < row.dataset.order;
    if (isWrong && !row.classList.contains("decided")) insert(row, false);
  }
  for (const id of ended) leave(rowWith(id) ?? document.createElement("li"));
  ended.clear();
  fold();
  changed();
}

// What expired is one quiet line.
function fold() {
  const now = serverNow();
  for (const row of $$("#list .row[data-expires]:not(.lapsed)")) {
    if (Date.parse(row.dataset.expires) <= now) row.classList.add("lapsed");
  }
}

// What expires in two minutes stands first: the ranks of approvals/desk/viewers.py.
const SOON = 120_000, SOON_FOR_ME = "1", LATER_FOR_ME = /^[23]/;

function moveUp() {
  const soon = serverNow() + SOON;
  for (const row of rowsForMe()) {
    if (!LATER_FOR_ME.test(row.dataset.order) || !(Date.parse(row.dataset.expires) <= soon)) continue;
    row.dataset.order = row.dataset.order.replace(LATER_FOR_ME, SOON_FOR_ME);
    place(row);
  }
}

// What the person has set aside comes back by itself.
function bringBack() {
  const note = $("#list [data-aside]");
  if (!(Date.parse(note?.dataset.aside) <= serverNow())) return;
  note.remove();
  refreshList();
}

function showPill() {
  const pill = $("[data-pill]");
  if (!pill) return;
  const rows = [...held.values()];
  pill.hidden = !rows.length;
  if (!rows.length) return;
  const first = Math.min(...rows.map((row) => Date.parse(row.dataset.expires)));
  const text = counted("new_rows", rows.length);
  const expires = word("expires_in", { left: countdown(first - serverNow()) });
  pill.textContent = Number.isFinite(first) ? `${text}, ${expires} ↑` : `${text} ↑`;
}

function changed() { countGroups(); showPill(); onChange(); }

export function everySecond() {
  if (!$("#list")) return;
  if (!isUsed()) { if (held.size || ended.size) release(); else { fold(); countGroups(); } moveUp(); }
  bringBack();
  showPill();
}

// --- fetching -----------------------------------------------------------------------------------

// Updates of the list run one after the other, so a slow response never overwrites a newer one.
let turn = Promise.resolve(true);
const inTurn = (work) => { turn = turn.then(work, work); return turn; };
export const query = () => {
  if (!$(".filters")) return "";
  const fields = [...new FormData($(".filters"))].filter(([, value]) => value);
  return new URLSearchParams(fields).toString();
};

// Rows that came with the message; whoever filters the list has to ask.
export const showRows = (ids, html) => (query() ? refreshRows(ids) : inTurn(() => patch(parsed(html))));
export const refreshRows = (ids) => inTurn(() => fetchRows(ids.map((id) => `id=${id}`).join("&")));
export const refreshList = () => inTurn(fetchList);
// What changed since then; the whole list if that is too much.
export const refreshSince = (since) => inTurn(() => fetchRows(`since=${encodeURIComponent(since)}`));

let listRefresh = null;
// What an agent has beyond its share of the list is only counted. When that may have changed, the
// whole list is fetched, once in a while however often it changes.
function refreshListSoon() {
  listRefresh ??= setTimeout(refreshOnceSeen, refreshAfter * (0.5 + Math.random()));
}

function refreshOnceSeen() {
  if (document.hidden) { document.addEventListener("visibilitychange", refreshOnceSeen, { once: true }); return; }
  listRefresh = null;
  refreshList();
}

async function fetchRows(which) {
  if (!$("#list")) return refreshCount();
  const answer = await fetchPart(`/rows?${which}&${query()}`);
  if (answer?.status === 205) return fetchList();
  if (!answer?.ok) return false;
  return patch(parsed(await answer.text()));
}

function patch(fragment) {
  if (!$("#list")) { count(fragment); return true; }
  keepingFocus(() => { for (const row of $$(".row", fragment)) patchRow(document.adoptNode(row)); });
  const seconds = Number($("[data-refresh-after]", fragment)?.dataset.refreshAfter);
  if (seconds) refreshAfter = seconds * 1_000;
  const checked = $("[data-checked]", fragment)?.dataset.checked;
  if ($("[data-hidden-changed]", fragment) || (checked && checked !== numbersOfChecks())) refreshListSoon();
  count(fragment);
  changed();
  tick();
  return true;
}

async function refreshCount() {
  const html = await fetchFragment("/rows");
  if (html !== null) count(parsed(html));
  return html !== null;
}

async function fetchList() {
  if (!$("#list")) return refreshCount();
  const loaded = $$("#list .row").length;
  const html = await fetchFragment(`/?n=${loaded}&${query()}`);
  if (html === null) return false;
  const fragment = parsed(html), rows = $$(".row", fragment);
  const ids = new Set(rows.map((row) => row.id));
  replaceRest(fragment);
  keepingFocus(() => {
    for (const row of $$("#list .row:not(.decided)")) if (!ids.has(row.id)) leave(row);
    for (const row of rows) patchRow(document.adoptNode(row));
  });
  count(fragment);
  changed();
  tick();
  return true;
}

function replaceRest(fragment) {
  for (const section of $$("section[data-group]", fragment)) {
    $(`#list section[data-group="${section.dataset.group}"]`).dataset.rest = section.dataset.rest;
  }
  replaceChecks(fragment);
  for (const part of ["[data-aside]", "[data-further]", "[data-more]", ".note"]) {
    $(`#list ${part}`)?.remove();
    const next = $(part, fragment);
    if (next && part === ".note") $("#list").prepend(document.adoptNode(next));
    else if (next) $("#list [data-empty]").before(document.adoptNode(next));
  }
  watchEnd();
}

const numbersOfChecks = () => $$("#list [data-checks]").map((each) => each.dataset.number).join(" ");

function replaceChecks(fragment) {
  for (const old of $$("#list [data-checks]")) {
    const next = $(`[data-checks="${old.dataset.checks}"]`, fragment);
    if (next && old.innerHTML !== next.innerHTML) old.replaceWith(document.adoptNode(next));
  }
}

function keepingFocus(work) {
  const focused = document.activeElement?.closest?.("#list .row")?.id;
  work();
  if (focused && !document.activeElement?.closest(".row")) {
    $("a", document.getElementById(focused) ?? document.createElement("p"))?.focus();
  }
}

// --- further rows, as one scrolls -----------------------------------------------------------------

const seesEnd = new IntersectionObserver(
  (entries) => { if (entries.some((entry) => entry.isIntersecting)) nextPage(); },
  { rootMargin: "600px" },
);
function watchEnd() {
  seesEnd.disconnect();
  const end = $("#list [data-further]");
  if (end) seesEnd.observe(end);
}

const nextPage = () => inTurn(async () => {
  const after = endOfList();
  if (!after) return true;
  const html = await fetchFragment(`/?after=${encodeURIComponent(after)}&${query()}`);
  if (html === null || after !== endOfList()) return false;
  const fragment = parsed(html);
  const further = $("[data-further]", fragment);
  if (further) $("#list [data-further]").replaceWith(document.adoptNode(further));
  else $("#list [data-further]").remove();
  for (const row of $$(".row", fragment)) appendRow(document.adoptNode(row));
  changed();
  tick();
  watchEnd();
  return true;
});

function appendRow(row) {
  const section = sectionOf(row);
  section.dataset.rest = Math.max(0, Number(section.dataset.rest) - 1);
  if (!rowWith(row.dataset.id) && !held.has(row.dataset.id)) place(row);
}

// --- begin ----------------------------------------------------------------------------------------

export function startList(whenChanged) {
  onChange = whenChanged;
  const box = listBox();
  if (!box) return;
  box.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") { isInside = true; moved(); } });
  box.addEventListener("pointerleave", (event) => {
    isInside = false;
    if (event.pointerType === "mouse" && !isFocused()) release();
  });
  for (const kind of ["pointermove", "keydown", "focusin", "pointerdown"]) box.addEventListener(kind, moved);
  $("[data-pill]").addEventListener("click", () => {
    const [first] = held.keys();
    lastMove = 0;
    release();
    rowWith(first)?.scrollIntoView({ block: "nearest" });
  });
  $("#list").addEventListener("htmx:afterSwap", () => { held.clear(); ended.clear(); watchEnd(); changed(); });
  watchEnd();
  changed();
}
