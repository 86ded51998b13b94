// j/k, enter, escape, a, e, r, z, /, g then a letter of a page, ?. Never while somebody is typing or a
// dialog is open. A key that is held down moves through the list and decides nothing.
import { focusHeading, isDecided, isOpening, openId, openNext, openRow, rowAt } from "./item.js";
import { rowWith } from "./list.js";
import { $, announce } from "./page.js";
import { word } from "./words.js";

const GO_WITHIN = 1_000; // milliseconds
const MOVES = new Set(["j", "k", "ArrowDown", "ArrowUp", "Tab", "PageDown", "PageUp", " "]);

// The pages that the top bar shows to this person.
const pageOf = (key) => $(`[data-key="${key}"]`)?.getAttribute("href");

export function listenToKeys() {
  let wentAt = 0;

  function step(by) {
    if (by > 0 && isDecided()) { openNext(); return; }
    const row = rowAt(by);
    if (!row) return;
    $("a", row).focus();
    row.scrollIntoView({ block: "nearest" });
    openRow(row);
  }

  const press = (selector) => $(`#item ${selector}:not(:disabled)`)?.click();

  // Approving takes a second key: the button gets the focus, and Enter presses it.
  function arm() {
    const button = $("#item [data-approve]:not(:disabled)");
    if (!button) return;
    if (button.dataset.open) { button.click(); return; }
    button.focus();
    button.classList.add("armed");
    button.addEventListener("blur", () => button.classList.remove("armed"), { once: true });
    announce(word("press_enter"));
  }

  const answer = () => $("#item [data-answer] :is(input, textarea):not([type=hidden])")?.focus();
  const isOnRow = (event) => event.target.closest?.("#list .row");
  const actions = {
    j: () => step(1),
    k: () => step(-1),
    a: () => { if (!isOpening()) { arm(); answer(); } },
    e: () => { if (!isOpening()) press("[data-change]"); },
    r: () => { if (!isOpening()) press("[data-reject]"); },
    z: () => $("[data-undo]:not(:disabled)")?.click(),
    "/": () => $("[data-search]")?.focus(),
    "?": () => $("#keys").showModal(),
    g: () => { wentAt = Date.now(); },
  };

  function arrow(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !isOnRow(event)) return false;
    step(by);
    return true;
  }

  function enter(event) {
    const row = isOnRow(event);
    if (row) openRow(row).then((isOpen) => { if (isOpen) focusHeading(); });
    else if (!event.target.closest("a, button, summary") && isDecided()) openNext();
    else return false;
    return true;
  }

  function escape() {
    const menu = $("[data-menu][open]");
    if (menu) {
      menu.open = false;
      $("summary", menu).focus();
      return true;
    }
    const row = rowWith(openId());
    if (row) $("a", row).focus();
    return Boolean(row);
  }

  document.addEventListener("keydown", (event) => {
    const isText = event.target.closest("input, textarea, select");
    if (event.repeat && !MOVES.has(event.key) && (!isText || event.key === "Enter")) {
      if (!event.target.closest("textarea")) event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    if (isText) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const there = Date.now() - wentAt < GO_WITHIN && pageOf(event.key);
    if (there) { location.href = there; return; }
    if (event.key === "Enter" ? enter(event) : event.key === "Escape" ? escape() : arrow(event)) event.preventDefault();
    else if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
}
