// On paper nothing is folded: open what is closed, and close it again afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("main details:not([open])")];
  for (const each of opened) each.open = true;
});
addEventListener("afterprint", () => { for (const each of opened) each.open = false; });
