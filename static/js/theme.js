// Before the first paint: set the theme that was chosen in this browser, else in the account, else
// the theme of the system.
const dark = matchMedia("(prefers-color-scheme: dark)");
const show = () => {
  const { dataset } = document.documentElement;
  const chosen = localStorage.getItem("theme") || dataset.chosenTheme;
  dataset.theme = chosen || (dark.matches ? "dark" : "light");
};
dark.addEventListener("change", show);
show();
document.addEventListener("click", (click) => {
  if (!click.target.closest("[data-theme-switch]")) return;
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next);
  show();
});
