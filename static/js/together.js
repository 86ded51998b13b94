// Several at once: how many are chosen and what they amount to; x chooses, as in the list.

const form = document.querySelector("[data-together]");
const choices = [...form.querySelectorAll("[data-choice]")];
const told = form.querySelector("[data-chosen]");
const all = form.querySelector("[data-choose-all]");

function tell() {
  const chosen = choices.filter((choice) => choice.checked);
  const sums = new Map();
  for (const { dataset } of chosen) {
    if (dataset.amount) {
      sums.set(dataset.currency, (sums.get(dataset.currency) ?? 0) + Number(dataset.amount));
    }
  }
  const money = [...sums].map(([currency, sum]) =>
    new Intl.NumberFormat(document.documentElement.lang, { style: "currency", currency }).format(sum),
  );
  told.hidden = false;
  told.textContent = chosen.length
    ? [`${told.dataset.some} ${chosen.length}`, ...money].join(" · ")
    : told.dataset.none;
  for (const button of form.querySelectorAll("button[name=verdict]")) {
    button.disabled = chosen.length === 0;
  }
}

if (told) {
  all.hidden = false;
  all.addEventListener("click", () => {
    const isAll = choices.every((choice) => choice.checked);
    choices.forEach((choice) => (choice.checked = !isAll));
    tell();
  });
  form.addEventListener("change", tell);
  form.querySelector("[data-reason]").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    form.querySelector("[value=reject]").click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "x" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input[type=text], textarea")) return;
    const at = document.activeElement?.closest("li")?.querySelector("[data-choice]") ?? choices[0];
    if (!document.activeElement?.closest("li")) {
      at?.focus();
      return;
    }
    at.checked = !at.checked;
    tell();
  });
  document.addEventListener("keydown", (event) => {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (!step || event.target.closest("input[type=text], textarea")) return;
    const now = choices.indexOf(document.activeElement?.closest("li")?.querySelector("[data-choice]"));
    const next = choices[Math.min(choices.length - 1, Math.max(0, now + step))];
    if (next) {
      event.preventDefault();
      next.focus();
      next.closest("li").scrollIntoView({ block: "nearest" });
    }
  });
  tell();
}
