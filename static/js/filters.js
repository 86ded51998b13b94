// The filters of a list: applied when they change; on a phone folded behind one button.
document.addEventListener("change", ({ target }) => {
  const form = target.closest("form[data-filters]");
  if (form && target.type !== "search") form.requestSubmit();
});
document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-unfold-filters]");
  if (!button) return;
  const isOpen = button.closest("form").classList.toggle("unfolded");
  button.setAttribute("aria-expanded", String(isOpen));
});
// What is saved under a name are the filters as they are now.
document.addEventListener("submit", ({ target }) => {
  if (!target.matches("form[data-save-view]")) return;
  const filters = document.querySelector("form.filters");
  const isSet = ([, value]) => typeof value === "string" && value !== "";
  target.elements.query.value = new URLSearchParams([...new FormData(filters)].filter(isSet));
});
