// Names what Django's admin leaves without one: fields in tables, halves of a date and time.
const text = (element) => element?.textContent.replace(/\s+/g, " ").trim() || "";

function headOf(cell) {
  const head = cell.closest("table")?.querySelector("thead tr");
  return head ? head.cells[cell.cellIndex] : null;
}

function nameOf(field) {
  const cell = field.closest("td");
  const column = cell && text(headOf(cell));
  if (column) return column;
  const group = field.closest(".form-row, fieldset");
  return text(group?.querySelector("label, legend"));
}

// In the lists of jobs: the box of a row is named after the row's link, the one in the head after all.
const wordForAll = document.querySelector("script[data-select-all]")?.dataset.selectAll;
const nameOfBox = (field) =>
  field.id === "action-toggle" ? wordForAll : field.type === "checkbox" && text(field.closest("tr")?.querySelector("a"));

function nameFields(root) {
  for (const field of root.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (field.labels?.length || field.getAttribute("aria-label")) continue;
    const half = field.classList.contains("vTimeField") ? text(field.previousSibling) || "Time" : "";
    const name = [nameOf(field) || nameOfBox(field), half].filter(Boolean).join(", ");
    if (name) field.setAttribute("aria-label", name);
  }
}

// A head without a text is no head.
for (const head of document.querySelectorAll("th")) {
  if (text(head) || head.querySelector("input, img")) continue;
  const cell = document.createElement("td");
  cell.className = head.className;
  head.replaceWith(cell);
}
for (const table of document.querySelectorAll(".inline-group, .results")) {
  if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
}
nameFields(document);
document.addEventListener("formset:added", (event) => nameFields(event.target));
document.addEventListener("click", async ({ target }) => {
  const button = target.closest?.("[data-copy]");
  const secret = button?.parentElement.querySelector("code");
  if (!secret || !navigator.clipboard) return;
  await navigator.clipboard.writeText(text(secret));
  button.textContent = button.dataset.copied;
});
