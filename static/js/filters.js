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
