// Before the first paint: set the theme that the person chose, else the theme of the system.
const dark = matchMedia("(prefers-color-scheme: dark)");
const show = () => {
  const theme = localStorage.getItem("theme") || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
};
dark.addEventListener("change", show);
show();
document.addEventListener("click", (click) => {
  if (!click.target.closest("[data-theme-switch]")) return;
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next);
  show();
});
