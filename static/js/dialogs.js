// The dialogs of an item: what is missing stands under the field, a refusal keeps the dialog open,
// a typed confirmation is checked while one types, and nothing typed is lost when the time is up.
import { refreshItem } from "./item.js";
import { tell } from "./page.js";
import { word } from "./words.js";

const $ = (selector, root = document) => root.querySelector(selector);
const openDialog = () => $("#item dialog[open]");

// --- the typed confirmation: the rule of approvals/desk/strength/confirmations.py ---------------

const SEPARATORS = { "٫": ".", "٬": ",", "'": ",", "’": "," };
const GROUPED = /^(?:\d{1,3}([.,])\d{3}(?:\1\d{3})*|\d{1,2}(?:,\d\d)+,\d{3})$/;
const spaceless = (text) => text.replace(/\s/g, "").toLowerCase();
const digit = (sign) => {
  for (const zero of [0x660, 0x6f0, 0x966]) { // Arabic, Persian, Devanagari
    const value = sign.codePointAt(0) - zero;
    if (value >= 0 && value <= 9) return String(value);
  }
  return SEPARATORS[sign] ?? sign;
};
const folded = (text) => [...spaceless(text.normalize("NFKC"))].map(digit).join("");
const plain = (number) => number.replace(/^0+(?=\d)/, "").replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

function reading(text, precision) {
  if (/^\d+$/.test(text)) return text;
  if (GROUPED.test(text)) {
    const isPoint = precision === 3 && text.split(".").length === 2 && !text.includes(",");
    return isPoint ? text : text.replace(/[.,]/g, "");
  }
  const at = Math.max(text.lastIndexOf("."), text.lastIndexOf(","));
  const whole = text.slice(0, Math.max(0, at)), decimals = text.slice(at + 1);
  const grouped = whole.match(GROUPED);
  const isWhole = /^\d+$/.test(whole) || (grouped && (grouped[1] ?? ",") !== text[at]);
  const isNumber = at > 0 && isWhole && /^\d+$/.test(decimals) && decimals.length <= Math.max(precision, 2);
  return isNumber ? `${whole.replace(/[.,]/g, "")}.${decimals}` : "";
}

function isAmount(typed, { amount, precision, signs }) {
  let text = folded(typed);
  for (const sign of signs.map(folded).sort((one, other) => other.length - one.length)) {
    if (text.startsWith(sign)) { text = text.slice(sign.length); break; }
    if (text.endsWith(sign)) { text = text.slice(0, -sign.length); break; }
  }
  const number = reading(text, precision);
  return number !== "" && plain(number) === plain(amount);
}

export function isConfirmed(typed, spellings) {
  if (spellings.amount !== undefined) return isAmount(typed, spellings);
  return spellings.names.some((name) => spaceless(name) !== "" && spaceless(name) === spaceless(typed));
}

function checkTyped(field) {
  const button = $("button.primary", field.form);
  const isRight = isConfirmed(field.value, JSON.parse(field.dataset.spellings));
  button.disabled = !isRight || isExpired();
  if (isRight) tell(field.form, "");
}

// --- what the dialog says -------------------------------------------------------------------------

const isExpired = () => Boolean($("#item [data-item]")?.dataset.expired);

const isFilled = (field) =>
  field.type === "radio"
    ? [...field.form.elements].some((other) => other.name === field.name && other.checked)
    : field.type === "checkbox" ? field.checked : field.value.trim() !== "";

// Before htmx sees the form: a field that is missing is named under it.
document.addEventListener("submit", (submit) => {
  const form = submit.target;
  if (!form.closest("dialog")) return;
  const isSigned = submit.submitter?.dataset.sign !== undefined; // that stands for typing
  const missing = [...form.elements].find((field) =>
    field.required && !isFilled(field) && !(isSigned && field.dataset.spellings));
  if (!missing) { tell(form, ""); return; }
  submit.preventDefault();
  submit.stopImmediatePropagation();
  tell(form, missing.dataset.missing ?? "");
  missing.setAttribute("aria-invalid", "true");
  missing.focus();
}, true);

document.addEventListener("input", ({ target }) => {
  target.removeAttribute?.("aria-invalid");
  if (target.dataset?.spellings) checkTyped(target);
  else if (target.form?.closest("dialog")) tell(target.form, "");
});

document.addEventListener("click", ({ target }) => {
  const chip = target.closest?.("[data-fill]");
  if (chip) fill(chip);
  const opener = target.closest?.("[data-open]");
  if (opener) begin(document.getElementById(opener.dataset.open));
  const text = target.closest?.("[data-copy-text]");
  if (text) copy(text, text.dataset.copyText);
  const typed = target.closest?.("[data-copy-typed]");
  if (typed) copy(typed, textOf(typed.form));
});

function fill(chip) {
  const box = $("textarea", chip.form);
  box.value = chip.dataset.fill;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  box.focus();
}

function begin(dialog) {
  const typed = dialog && $("[data-spellings]", dialog);
  if (typed) checkTyped(typed);
}

async function copy(button, text) {
  if (!navigator.clipboard) return;
  await navigator.clipboard.writeText(text);
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1200);
}

const textOf = (form) => $("textarea, [data-spellings]", form)?.value ?? "";

// A refusal because of what was typed belongs into the dialog; any other answer is the item anew.
document.addEventListener("htmx:beforeSwap", (swap) => {
  const { xhr, requestConfig } = swap.detail, form = requestConfig?.elt;
  if (xhr.status !== 422 || !form?.closest?.("dialog[open]")) return;
  const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
  swap.detail.shouldSwap = false;
  tell(form, $("[role=alert] strong", page)?.textContent ?? "");
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  const typed = detail.elt?.closest?.("dialog[open]") && $("[data-spellings]", detail.elt);
  if (typed) checkTyped(typed);
});

// --- the time is up while a dialog is open -----------------------------------------------------------

function tellExpired() {
  const item = $("#item [data-item][data-expired]");
  if (item) end(item.dataset.waits);
}
setInterval(tellExpired, 500);

// Somebody else was faster.
document.addEventListener("item:decided", ({ detail }) => end(word("meanwhile", { line: detail.line })));

/** Nothing can be sent from the open dialog any more; what was typed stays, and can be copied. */
function end(text) {
  const dialog = openDialog(), form = dialog && $("form", dialog);
  if (!form || dialog.dataset.told) return;
  dialog.dataset.told = "1";
  tell(form, text);
  for (const field of form.querySelectorAll("textarea, input:not([type=hidden])")) field.readOnly = true;
  for (const button of form.querySelectorAll("button.primary, .chip, [data-sign]")) button.disabled = true;
  const copyTyped = $("[data-copy-typed]", form);
  if (copyTyped) copyTyped.hidden = !textOf(form);
}

// While a dialog was open the item was not refreshed, so that nothing typed was lost.
document.addEventListener("close", async ({ target }) => {
  const item = target.closest?.("#item [data-item]");
  if (!item || !item.dataset.address) return;
  let html = "";
  try {
    const answer = await fetch(item.dataset.address, { headers: { "HX-Request": "true" }, redirect: "manual" });
    if (answer.ok) html = await answer.text();
  } catch { return; }
  const next = $("[data-item]", new DOMParser().parseFromString(html, "text/html"));
  const isNews = next && (next.dataset.version !== item.dataset.version || item.dataset.expired);
  if (isNews && $("#item [data-item]") === item) refreshItem();
}, true);
