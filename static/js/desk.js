// The desk: keeps the list, the open item and the figures up to date, and handles clicks.
import { setServerNow, tick } from "./clock.js";
import { showCount } from "./count.js";
import { concernsItem, markOpen, openRow, refreshItem, startItem } from "./item.js";
import { listenToKeys } from "./keys.js";
import { everySecond, query, refreshList, refreshRows, refreshSince, showRows, startList } from "./list.js";
import { connect } from "./live.js";
import { $, $$, announce, fetchPart, leaveForSignIn, parsed } from "./page.js";
import "./undo.js";
import { word } from "./words.js";

document.addEventListener("click", (click) => {
  const target = click.target;
  const row = target.closest("#list .row a") && target.closest(".row");
  if (row && !click.ctrlKey && !click.metaKey && !click.shiftKey && click.button === 0) {
    click.preventDefault();
    openRow(row);
  }
  for (const menu of $$("[data-menu][open]")) if (!menu.contains(target) || target.closest("li button")) menu.open = false;
  const opener = target.closest("[data-open]");
  if (opener) document.getElementById(opener.dataset.open)?.showModal();
  if (target.closest("[data-print]")) window.print();
  if (target.closest("[data-close]")) target.closest("dialog").close();
  const copied = target.closest('[data-copy], [data-copy-link]:not([data-copy-link=""])');
  if (copied && navigator.clipboard) copy(copied);
});

// The text of the element, or the address of the page that it names.
async function copy(element) {
  const { copyLink } = element.dataset;
  try {
    await navigator.clipboard.writeText(copyLink ? new URL(copyLink, location.href).href : element.textContent.trim());
  } catch {
    return; // the browser does not let us: nothing is said to be copied
  }
  element.classList.add("copied");
  announce(word("copied"));
  setTimeout(() => element.classList.remove("copied"), 1200);
}

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

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  markOpen();
  tick();
  if (detail.target.id !== "list") return;
  const address = location.pathname === "/" || !query() ? location.pathname : "/";
  history.replaceState(history.state, "", query() ? `${address}?${query()}` : address);
});

// Where the person looks: beside the button that was pressed.
document.addEventListener("htmx:sendError", ({ detail }) => {
  announce(word("not_sent"));
  if ($("#give")) showNotSent($("#give"));
  const bar = detail.elt.closest("dialog")?.querySelector(".buttons") ?? $("#item .decide");
  if (!bar) return;
  const note = $("[data-unsent]", bar) ?? document.createElement("p");
  note.className = "not-sent";
  note.dataset.unsent = "";
  note.textContent = word("not_sent");
  bar.append(note);
});
document.addEventListener("htmx:beforeSend", () => { for (const note of $$("[data-unsent]")) note.remove(); });

const wrong = $(".change-form [aria-invalid]") ?? $(".change-form [autofocus]");
wrong?.focus();
wrong?.select?.();

// --- pages whose rows and figures are kept up to date ---------------------------------------------

const PARTS_AGAIN = 2_000; // milliseconds between two refreshes
const FIGURES_AGAIN = 30_000; // figures also change without an event
const PARTS = ".figures, main > .panel, main > [data-live-part], table.dense > tbody";
const isOfNow = ["/ops/", "/history/"].includes(location.pathname)
  && !new URLSearchParams(location.search).has("before");
let partsDue = null;

function refreshPartsSoon() {
  if (isOfNow) partsDue ??= setTimeout(refreshParts, PARTS_AGAIN);
}

const isBeingUsed = (part) => part.contains(document.activeElement) || $("details[open], dialog[open]", part);

// Parts of the page are replaced by themselves; not where somebody is reading or typing.
async function refreshParts() {
  partsDue = null;
  const answer = await fetchPart(location.href);
  if (!answer?.ok) return;
  const now = $$(PARTS), next = $$(PARTS, parsed(await answer.text()));
  if (now.length !== next.length) { replaceMain(next[0]); return; }
  now.forEach((part, place) => {
    if (!isBeingUsed(part) && part.innerHTML !== next[place].innerHTML) part.replaceChildren(...next[place].childNodes);
  });
  tick();
}

// A table or a panel came or went.
function replaceMain(part) {
  const main = $("#main");
  if (part && !isBeingUsed(main)) main.replaceChildren(...part.closest("main").childNodes);
  tick();
}

// --- other tabs -----------------------------------------------------------------------------------

// Whoever shows the sign-in page tells the other tabs that nobody is signed in any more.
function watchOtherTabs(isSignedIn) {
  if (!("BroadcastChannel" in window)) return;
  const tabs = new BroadcastChannel("assent");
  if (!isSignedIn) tabs.postMessage("signed out");
  else tabs.onmessage = ({ data }) => { if (data === "signed out") leaveForSignIn(); };
}

// --- begin ------------------------------------------------------------------------------------------

setServerNow(document.body.dataset.now);
tick();
setInterval(() => { everySecond(); tick(); }, 1000);
startList(markOpen);
startItem();
showCount(Number($("[data-waiting]")?.textContent || 0));
if ($("#keys")) listenToKeys();
const { socket } = document.body.dataset;
watchOtherTabs(Boolean(socket));
if (socket) {
  connect(socket, {
    onChanged: (ids, html) => {
      document.dispatchEvent(new CustomEvent("desk:changed", { detail: ids }));
      if (concernsItem(ids)) refreshItem();
      refreshPartsSoon();
      return html ? showRows(ids, html) : refreshRows(ids);
    },
    onCatchUp: (since) => {
      refreshItem();
      refreshPartsSoon();
      return since ? refreshSince(since) : refreshList();
    },
    onEnded: leaveForSignIn,
  });
  setInterval(() => { if (!document.hidden) refreshPartsSoon(); }, FIGURES_AGAIN);
}
