// The open item: opened from the list, kept up to date, and left for the next one.
import { serverNow, tick } from "./clock.js";
import { query, rowsForMe, rowWith, waitingRows } from "./list.js";
import { $, $$, announce, fetchFragment, isNarrow, parsed } from "./page.js";
import { word } from "./words.js";

const NEXT_AFTER = 2_000; // milliseconds, for who lets the next item open by itself
const UNDO = /\/undo$/;
const VERBS = /\/(approve|reject|send-back|resolve|answer|compensate)(\?|$)/;

let openings = 0; // how many items were requested; only the last requested one is shown
let opened = 0; // the request that was answered last
let openOrder = ""; // the place in the list of the item that is open, also after it has left
let decided = null; // what was decided on the open item
let place = { rows: [], top: 0 }; // the row opened on a narrow screen, its neighbours, where it stood

const openItem = () => $("#item [data-item]");
export const openId = () => openItem()?.dataset.item;
const heading = () => $("#item h1");
// Whether the item that is shown is about to be replaced by another one.
export const isOpening = () => opened !== openings;
export const isBusy = () => $("#item :is(dialog[open], form[data-signing])") !== null;

// Whether one of them is the open item, or one that it shows beside itself.
export function concernsItem(ids) {
  const { item, also = "" } = openItem()?.dataset ?? {};
  return ids.some((id) => id === item || also.includes(id));
}

export function markOpen() {
  const links = $$("#list .row > a"), id = openId();
  const open = rowWith(id);
  if (open && !open.classList.contains("decided")) openOrder = open.dataset.order;
  const reached = links.find((link) => link === document.activeElement)
    ?? (open ? $("a", open) : null) ?? $("a", waitingRows()[0] ?? document.createElement("p"));
  for (const link of links) {
    const row = link.parentElement;
    row.classList.toggle("open", row === open);
    if (row === open) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    link.tabIndex = link === reached ? 0 : -1;
  }
}

function show(html) {
  $("#item").innerHTML = html;
  window.htmx?.process($("#item"));
  offerNext();
  tick();
}

// Whether somebody has typed into the form, or is about to; it must not be replaced.
const isInUse = (form) => form.contains(document.activeElement) || [...form.elements].some((field) =>
  field.type === "radio" || field.type === "checkbox"
    ? field.checked !== field.defaultChecked
    : field.defaultValue !== undefined && field.value !== field.defaultValue);

// Whether nothing has happened to the item between the two.
function isSame(item, next) {
  const { state, version, address } = next?.dataset ?? {};
  const hasExpired = Boolean(item.dataset.expired);
  return !hasExpired && version !== undefined && item.dataset.version === version
    && item.dataset.state === state && item.dataset.address === address;
}

// While a dialog is open the item behind it stays, and the dialog says what has happened.
function tellDialog(item, next) {
  const line = $(".state > span", next)?.textContent.trim();
  if (line) document.dispatchEvent(new CustomEvent("item:decided", { detail: { line } }));
}

// The page was opened when it was shown first, however often it was refreshed since.
function keepOpened(item) {
  const digest = $("[name=digest]", item)?.value, shown = $("[name=shown]", item)?.value;
  for (const field of $$("#item [name=shown]")) {
    if (shown && digest === $("[name=digest]", field.form).value) field.value = shown;
  }
}

// A click that was meant for the revision before does not approve the one that took its place.
function restApproval(before) {
  const digest = (item) => $("[name=digest]", item)?.value;
  if (digest(before) === digest(openItem())) return;
  const buttons = $$("#item button[data-approve]:enabled");
  for (const button of buttons) button.disabled = true;
  setTimeout(() => { for (const button of buttons) button.disabled = false; }, 1500);
}

// What somebody is writing for the thread goes along.
function keepSaid(said, isSaying) {
  const box = $("#item [data-thread] textarea");
  if (!said?.value || !box) return;
  box.value = said.value;
  box.setSelectionRange(said.selectionStart, said.selectionEnd);
  box.closest("details").open = true;
  if (isSaying) box.focus();
}

export async function refreshItem() {
  const item = openItem(), opening = openings;
  if (!item) return;
  const html = await fetchFragment(item.dataset.address);
  if (html === null || opening !== openings) return;
  if (isBusy()) {
    const next = $("[data-item]", parsed(html));
    if (openItem() === item && next && next.dataset.state !== item.dataset.state) tellDialog(item, next);
    return;
  }
  // The item was replaced meanwhile, perhaps with an older version: fetch it again.
  if (openItem() !== item) { refreshItem(); return; }
  const form = $("[data-answer]", item), next = $("[data-item]", parsed(html));
  if (isSame(item, next)) return; // replacing it would take a button away from under the pointer
  if (form && isInUse(form) && next?.dataset.state === item.dataset.state) return;
  const top = $(".item-body", item)?.scrollTop ?? 0;
  const details = $$("details", item).map((each) => each.open);
  const hadFocus = heading() === document.activeElement;
  const said = $("[data-thread] textarea", item), isSaying = said === document.activeElement;
  show(html);
  restApproval(item);
  keepOpened(item);
  keepSaid(said, isSaying);
  $("#item .item-body").scrollTop = top;
  $$("#item details").forEach((each, place) => { if (details[place]) each.open = true; });
  if (hadFocus) focusHeading();
}

export function focusHeading() {
  heading()?.setAttribute("tabindex", "-1");
  heading()?.focus();
}

// --- addresses ------------------------------------------------------------------------------------

const withFilters = (address) => (query() ? `${address}?${query()}` : address);

async function open(address) {
  const opening = ++openings;
  const html = await fetchFragment(address);
  if (opening !== openings) return false;
  opened = opening;
  if (html === null) { if (navigator.onLine) location.href = address; return false; }
  decided = null;
  show(html);
  markOpen();
  return true;
}

export async function openRow(row) {
  const address = $("a", row).getAttribute("href");
  openOrder = row.dataset.order;
  const isDeeper = document.body.classList.contains("item-open");
  if (!isDeeper && isNarrow.matches) place = placeOf(row);
  if (row.dataset.id === openId() && !isNarrow.matches) refreshItem(); // a dialog on it stays open
  else if (!await open(address)) return false;
  if (location.pathname !== address) {
    history[isDeeper && isNarrow.matches ? "replaceState" : "pushState"]({ address }, "", withFilters(address));
  }
  showItem();
  return true;
}

function placeOf(row) {
  history.scrollRestoration = "manual"; // the browser would count with guessed heights
  const rows = $$("#list .row");
  const heights = rows.map(({ offsetHeight }) => offsetHeight);
  rows.forEach((each, at) => { each.style.containIntrinsicBlockSize = `auto ${heights[at]}px`; });
  const at = rows.indexOf(row);
  const near = [row, ...rows.slice(at + 1), ...rows.slice(0, at).reverse()];
  return { rows: near.map(({ id }) => id), top: row.getBoundingClientRect().top };
}

// What was undone from the note at the bottom takes the place of the item that was open.
export function showUndone() {
  const { address } = openItem()?.dataset ?? {};
  if (!address) return;
  if (location.pathname !== address) history.pushState({ address }, "", withFilters(address));
  showItem();
}

function showItem() {
  document.body.classList.add("item-open");
  if (isNarrow.matches) window.scrollTo(0, 0);
}

function showList() {
  document.body.classList.remove("item-open");
  if (isNarrow.matches) returnTo(place);
  $(`#row-${openId()} a`)?.focus({ preventScroll: true });
}

/** Scrolls the row back to where it stood, or whichever row is left that was nearest to it. */
function returnTo({ rows, top }) {
  const row = rows.map((id) => document.getElementById(id)).find(Boolean);
  if (row) window.scrollBy(0, row.getBoundingClientRect().top - top);
  else window.scrollTo(0, 0);
}

export function startItem() {
  if (!$("#list")) return;
  const address = openItem()?.dataset.address;
  history.replaceState({ address, isList: location.pathname === "/" }, "");
  window.addEventListener("popstate", async ({ state }) => {
    if (!state) return;
    if (state.address && state.address !== openItem()?.dataset.address) await open(state.address);
    if (state.isList) showList(); else showItem();
  });
  $("[data-back]")?.addEventListener("click", (click) => {
    if (!isNarrow.matches) return;
    click.preventDefault();
    if (history.state && !history.state.isList && history.length > 1 && cameFromList) history.back();
    else { history.pushState({ isList: true }, "", withFilters("/")); showList(); }
  });
  markOpen();
}
const cameFromList = location.pathname === "/";

// --- what comes next ------------------------------------------------------------------------------

// The next below that this person can decide, else the first.
export function nextRow() {
  const rows = rowsForMe().filter((row) => row.dataset.id !== openId());
  return rows.find((row) => row.dataset.order > openOrder) ?? rows[0] ?? null;
}

// The row so many steps from the open one or the one with the focus.
export function rowAt(by) {
  const focused = document.activeElement?.closest?.("#list .row");
  const from = focused?.dataset.order ?? openOrder, rows = waitingRows();
  const below = rows.filter((row) => row.dataset.order > from);
  const above = rows.filter((row) => row.dataset.order < from);
  return (by > 0 ? below[0] : above.at(-1)) ?? (by > 0 ? rows.at(-1) : rows[0]) ?? null;
}

export const isDecided = () => decided !== null && decided.id === openId();

export async function openNext() {
  const row = nextRow();
  if (!row) return;
  if (await openRow(row)) focusHeading();
}

function offerNext() {
  if (!isDecided() || !decided.isDone) return;
  const bar = $("#item .decide");
  if (!bar || $("[data-next]", bar)) return;
  const receipt = $("#item [data-receipt], #item .block.good code")?.textContent.trim();
  const row = nextRow(), line = document.createElement("p"), text = document.createElement("span");
  line.className = "next";
  const isTold = $("#item form[data-undo-until]") !== null; // by the words beside its button
  text.textContent = receipt ? word("done_with_receipt", { receipt }) : isTold ? "" : word(decided.verb);
  line.append(text);
  if (row) line.append(linkTo(row)); else line.append(word("nothing_next"));
  bar.append(line);
  if (receipt && !decided.isTold) tell(`${word(decided.verb)} ${word("done_receipt", { receipt })}`);
}

function linkTo(row) {
  const link = document.createElement("a");
  link.href = $("a", row).getAttribute("href");
  link.dataset.next = row.dataset.id;
  link.className = "button quiet";
  const text = document.createElement("bdi");
  text.textContent = word("next", { summary: $("strong", row).textContent });
  link.append(text, "↵");
  link.addEventListener("click", (click) => { click.preventDefault(); openNext(); });
  return link;
}

function secondsToUndo() {
  const { undoUntil } = $("#item form[data-undo-until]")?.dataset ?? {};
  return undoUntil ? Math.ceil((Date.parse(undoUntil) - serverNow()) / 1000) : 0;
}

function tell(text) {
  decided.isTold = true;
  announce(text);
}

document.addEventListener("htmx:beforeRequest", (event) => {
  const { detail } = event, verb = VERBS.exec(detail.requestConfig?.path ?? "")?.[1];
  // Another item is on its way into the place of the one that this click is for.
  if (verb && detail.target.id === "item" && isOpening()) { event.preventDefault(); return; }
  if (UNDO.test(detail.requestConfig?.path ?? "")) decided = null;
  if (verb && detail.target.id === "item") decided = { id: openId(), verb: `done_${verb}`, isDone: false };
});

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target.id !== "item" || !decided || decided.id !== openId()) return;
  if (detail.xhr.status >= 300) { decided = null; return; }
  decided.isDone = true;
  const mine = decided;
  const seconds = secondsToUndo();
  if (seconds > 0) announce(word("undo_offered", { seconds }));
  // Whoever hears the page is told once: with the receipt if that comes soon.
  else setTimeout(() => { if (decided === mine && !mine.isTold) tell(word(mine.verb)); }, 3_000);
  offerNext();
  if (document.body.dataset.opensNext) {
    setTimeout(() => { if (decided === mine && isDecided() && !isBusy()) openNext(); }, NEXT_AFTER);
  }
});
