// j/k, enter, escape, a, r, /, g then a letter of a page, ?. Never while somebody is typing or a
// dialog is open.
import { focusHeading, isDecided, openId, openNext, openRow, rowAt } from "./item.js";
import { rowWith } from "./list.js";
import { $ } from "./page.js";

const GO_WITHIN = 1_000; // milliseconds

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
  const answer = () => $("#item [data-answer] :is(input, textarea):not([type=hidden])")?.focus();
  const isOnRow = (event) => event.target.closest?.("#list .row");
  const actions = {
    j: () => step(1),
    k: () => step(-1),
    a: () => { press("[data-approve]"); answer(); },
    r: () => press("[data-reject]"),
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
    const row = rowWith(openId());
    if (row) $("a", row).focus();
    return Boolean(row);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const there = Date.now() - wentAt < GO_WITHIN && pageOf(event.key);
    if (there) { location.href = there; return; }
    if (event.key === "Enter" ? enter(event) : event.key === "Escape" ? escape() : arrow(event)) event.preventDefault();
    else if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
}
