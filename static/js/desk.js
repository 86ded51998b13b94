// The desk: keeps the list and the open item up to date, and handles clicks and keys.
import { setServerNow, tick } from "./clock.js";
import { connect } from "./live.js";
import { listenToKeys } from "./keys.js";

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const REFRESH_AFTER = 2_000; // milliseconds, for rows that are only counted
const FADE_AFTER = 6_000; // milliseconds that a row decided elsewhere stays
const isNarrow = matchMedia("(max-width: 860px)");

async function fetchFragment(address) {
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" }, redirect: "manual" });
    if (answer.type === "opaqueredirect") { location.reload(); return null; }
    return answer.ok ? await answer.text() : null;
  } catch { return null; }
}

const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

// --- the list ---------------------------------------------------------------------------------

function count(fragment) {
  const total = $("[data-total]", fragment);
  if (!total) return;
  setServerNow(total.dataset.serverNow);
  showCount(Number(total.dataset.total));
}

function showCount(number) {
  for (const badge of $$("[data-waiting]")) { badge.textContent = number; badge.hidden = !number; }
  document.title = document.title.replace(/^(\(\d+\) )?/, number ? `(${number}) ` : "");
  drawFavicon(number);
}

function drawFavicon(number) {
  const badge = [
    `<circle cx="23" cy="9" r="9" fill="#c0362c"/>`,
    `<text x="23" y="13" font-size="12" font-family="sans-serif" font-weight="700"`,
    ` text-anchor="middle" fill="#fff">${Math.min(number, 99)}</text>`,
  ];
  const svg = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">`,
    `<rect width="32" height="32" rx="8" fill="#4448b8"/>`,
    `<path d="M9 16.5l5 5 9.5-11" fill="none" stroke="#fff" stroke-width="3.5"/>`,
    ...(number ? badge : []),
    `</svg>`,
  ].join("");
  const link = $("[data-favicon]");
  if (link) link.href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

function countGroups() {
  let shown = 0;
  for (const group of $$("#list [data-group] ul")) {
    const section = group.closest("section"), rows = $$(".row:not(.decided)", group).length;
    shown += rows;
    section.hidden = !group.children.length;
    $("[data-group-count]", section).textContent = rows;
  }
  const empty = $("[data-empty]");
  if (empty) empty.hidden = shown > 0 || $$("#list .row").length > 0;
}

function place(row) {
  const list = $(`#list section[data-group="${row.dataset.group}"] ul`);
  const before = [...list.children].find((other) => other.dataset.expires > row.dataset.expires);
  list.insertBefore(row, before ?? null);
}

function patchRow(row) {
  const old = document.getElementById(row.id), waits = row.dataset.waitingRow === "1";
  if (!waits && !old) return;
  if (old && (!waits || old.dataset.group === row.dataset.group)) old.replaceWith(row);
  else { old?.remove(); place(row); if (!old) row.classList.add("in"); }
  if (waits && !old) announce(`New: ${$("strong", row).textContent}`);
  if (!waits) setTimeout(() => leave(row), FADE_AFTER);
}

function leave(row) {
  if (!row.isConnected) return;
  row.classList.add("leaving");
  setTimeout(() => { row.remove(); countGroups(); if ($("[data-more]")) refreshListSoon(); }, 150);
}

// What an agent has beyond its share of the list is only counted. When that may have changed, the
// whole list is fetched, once in a while however often it changes.
let listRefresh = null;
function refreshListSoon() {
  listRefresh ??= setTimeout(() => { listRefresh = null; refreshList(); }, REFRESH_AFTER);
}

function announce(text) { $("[data-announce]").textContent = text; }

// Updates of the list run one after the other, so a slow response never overwrites a newer one.
let turn = Promise.resolve(true);
const inTurn = (work) => { turn = turn.then(work, work); return turn; };

const query = () => ($(".filters") ? new URLSearchParams(new FormData($(".filters"))).toString() : "");

const refreshRows = (ids) => inTurn(() => fetchRows(ids));
const refreshList = () => inTurn(fetchList);

async function fetchRows(ids) {
  if (!$("#list")) return refreshCount();
  const html = await fetchFragment(`/rows?${ids.map((id) => `id=${id}`).join("&")}&${query()}`);
  if (html === null) return false;
  const fragment = parsed(html);
  const focused = document.activeElement?.closest?.(".row")?.id;
  for (const row of $$(".row", fragment)) patchRow(document.adoptNode(row));
  if (focused && !document.activeElement?.closest(".row")) {
    $("a", document.getElementById(focused) ?? document)?.focus?.();
  }
  if ($("[data-hidden-changed]", fragment)) refreshListSoon();
  count(fragment);
  countGroups();
  markOpen();
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
  const html = await fetchFragment(`/?${query()}`);
  if (html === null) return false;
  const list = $("#list"), top = list.scrollTop;
  const focused = document.activeElement?.closest?.(".row")?.id;
  list.innerHTML = parsed(html).body.innerHTML;
  list.scrollTop = top;
  if (focused) $("a", document.getElementById(focused) ?? list)?.focus?.();
  count(list);
  markOpen();
  tick();
  return true;
}

// --- the open item ------------------------------------------------------------------------------

const openItem = () => $("#item [data-item]");
// Whether one of them is the open item, or one that it shows beside itself.
const concernsItem = (ids) => {
  const { item, also = "" } = openItem()?.dataset ?? {};
  return ids.some((id) => id === item || also.includes(id));
};
const openId = () => openItem()?.dataset.item;
let openings = 0; // how many items were requested; only the last requested one is shown

function markOpen() {
  for (const row of $$("#list .row")) row.classList.toggle("open", row.dataset.id === openId());
}

function show(html) {
  $("#item").innerHTML = html;
  window.htmx?.process($("#item"));
  tick();
}

// Whether somebody has typed into the form; their text must not be replaced.
const isTouched = (form) => [...form.elements].some((field) =>
  field.type === "radio" || field.type === "checkbox"
    ? field.checked !== field.defaultChecked
    : field.defaultValue !== undefined && field.value !== field.defaultValue);
const isBusy = () => $("#item dialog[open]") !== null;

async function refreshItem() {
  const item = openItem(), opening = openings;
  if (!item || isBusy()) return;
  const html = await fetchFragment(item.dataset.address);
  if (html === null || opening !== openings || isBusy()) return;
  // The item was replaced meanwhile, perhaps with an older version: fetch it again.
  if (openItem() !== item) { refreshItem(); return; }
  const form = $("[data-answer]", item), next = $("[data-item]", parsed(html));
  if (form && isTouched(form) && next?.dataset.state === item.dataset.state) return;
  const top = $(".item-body", item)?.scrollTop ?? 0;
  const details = $("details", item)?.open;
  show(html);
  $("#item .item-body").scrollTop = top;
  if (details) $("#item details").open = true;
}

export async function openRow(row) {
  const address = $("a", row).getAttribute("href"), opening = ++openings;
  if (isNarrow.matches) { location.href = address; return; }
  if (row.dataset.id === openId()) { refreshItem(); return; } // a dialog on it stays open
  const html = await fetchFragment(address);
  if (opening !== openings) return;
  if (html === null) { location.href = address; return; }
  show(html);
  markOpen();
}

document.addEventListener("click", (click) => {
  const target = click.target;
  const row = target.closest("#list .row a") && target.closest(".row");
  if (row && !click.ctrlKey && !click.metaKey && !click.shiftKey && click.button === 0) {
    click.preventDefault();
    openRow(row);
  }
  const opener = target.closest("[data-open]");
  if (opener) document.getElementById(opener.dataset.open)?.showModal();
  if (target.closest("[data-print]")) window.print();
  if (target.closest("[data-close]")) target.closest("dialog").close();
  const copied = target.closest("[data-copy]");
  if (copied && navigator.clipboard) {
    navigator.clipboard.writeText(copied.textContent.replace(/ copied$/, ""));
    copied.classList.add("copied");
    setTimeout(() => copied.classList.remove("copied"), 1200);
  }
});

document.addEventListener("change", ({ target }) => {
  if (!target.dataset?.mostBytes) return;
  const size = [...target.files].reduce((sum, file) => sum + file.size, 0);
  const isTooLarge = size > Number(target.dataset.mostBytes);
  if (isTooLarge) target.value = "";
  document.getElementById(`${target.id}-fault`).hidden = !isTooLarge;
});

// An answer that is not the form itself (too large, signed out, away) must not replace it.
const showNotSent = (form) => { $("[data-not-sent]", form).hidden = false; };
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.target.id !== "give" || $("#give", parsed(detail.xhr.responseText))) return;
  detail.shouldSwap = false;
  showNotSent(detail.target);
});

document.addEventListener("htmx:afterSwap", () => { countGroups(); markOpen(); tick(); });
document.addEventListener("htmx:sendError", () => {
  announce("Assent did not answer. Nothing was decided; try again.");
  if ($("#give")) showNotSent($("#give"));
});

// --- begin ---------------------------------------------------------------------------------------

setServerNow(document.body.dataset.now);
tick();
setInterval(tick, 1000);
markOpen();
showCount(Number($("[data-waiting]")?.textContent || 0));
listenToKeys({ openRow });
if (document.body.dataset.socket) {
  connect(document.body.dataset.socket, {
    onChanged: (ids) => { document.dispatchEvent(new CustomEvent("desk:changed", { detail: ids })); if (concernsItem(ids)) refreshItem(); return refreshRows(ids); },
    onCatchUp: () => { refreshItem(); return refreshList(); },
  });
}
