// The seconds in which an approval can be undone: counted down on the item, and in a note at the
// bottom, with the same form, while another item is open.
import { serverNow } from "./clock.js";
import { focusHeading, openId, showUndone } from "./item.js";
import { $, $$, announce } from "./page.js";
import { word } from "./words.js";

const LOOK_EVERY = 200; // milliseconds

let kept = null; // a copy of the form of the last approval

const left = (form) => Math.ceil((Date.parse(form.dataset.undoUntil) - serverNow()) / 1000);
const note = () => $("[data-undo-note]");

function look() {
  const form = $("#item form[data-undo-until]");
  if (form) kept = form.cloneNode(true);
  else if (kept?.dataset.undoOf === openId()) kept = null; // it has begun, or was undone
  if (kept && left(kept) <= 0) kept = null;
  if (!kept || form) note()?.remove();
  else if (note()?.dataset.undoNote !== kept.dataset.undoOf) showNote();
  for (const each of $$("form[data-undo-until]")) count(each);
}

function count(form) {
  const seconds = left(form);
  if (seconds <= 0) form.remove();
  else $("[data-undo-left]", form).textContent = String(seconds);
}

function showNote() {
  note()?.remove();
  const aside = document.createElement("aside");
  aside.className = "undo-note";
  aside.dataset.undoNote = kept.dataset.undoOf;
  aside.append(kept.cloneNode(true));
  document.body.append(aside);
  window.htmx?.process(aside);
}

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target.id !== "item" || !/\/undo$/.test(detail.requestConfig?.path ?? "")) return;
  kept = null;
  note()?.remove();
  showUndone();
  focusHeading();
  announce(detail.xhr.status < 300 ? word("undone") : $("#item [role=alert] strong")?.textContent.trim() ?? "");
});

// At once after an approval: whoever goes on within the next moment has the note, too.
document.addEventListener("htmx:afterSwap", ({ detail }) => { if (detail.target.id === "item") look(); });
if ($("#item")) setInterval(look, LOOK_EVERY);
