// j/k, enter, a, r, /, g then i/k/h/t/o, ?. Never while somebody is typing or a dialog is open.
const PAGES = { i: "/", k: "/tasks/", h: "/history/", t: "/tools/", o: "/ops/" };
const GO_WITHIN = 1_000; // milliseconds

export function listenToKeys({ openRow }) {
  let wentAt = 0;

  const rows = () => [...document.querySelectorAll("#list .row:not(.decided)")];
  const current = () => {
    const all = rows();
    const focused = all.indexOf(document.activeElement?.closest?.(".row"));
    return focused >= 0 ? focused : all.findIndex((row) => row.classList.contains("open"));
  };

  function step(by) {
    const all = rows();
    if (!all.length) return;
    const next = all[Math.min(all.length - 1, Math.max(0, current() + by))];
    next.querySelector("a").focus();
    next.scrollIntoView({ block: "nearest" });
    openRow(next);
  }

  const press = (selector) => document.querySelector(`#item ${selector}:not(:disabled)`)?.click();
  const firstField = "#item [data-answer] :is(input, textarea):not([type=hidden])";
  const answer = () => document.querySelector(firstField)?.focus();
  const actions = {
    j: () => step(1),
    k: () => step(-1),
    a: () => { press("[data-approve]"); answer(); },
    r: () => press("[data-reject]"),
    "/": () => document.querySelector("[data-search]")?.focus(),
    "?": () => document.getElementById("keys").showModal(),
    g: () => { wentAt = Date.now(); },
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (Date.now() - wentAt < GO_WITHIN && PAGES[event.key]) { location.href = PAGES[event.key]; return; }
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
}
