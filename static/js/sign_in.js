// Sign-in, account and people: passkeys, Caps Lock, the demo's buttons, links to copy.
import { isSupported, make, use } from "./passkeys.js";

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// --- passkeys -------------------------------------------------------------------------------------

async function post(address, form) {
  const answer = await fetch(address, { method: "POST", body: new FormData(form) });
  const content = await answer.json().catch(() => ({}));
  if (content.location && !answer.ok) location.href = content.location;
  if (!answer.ok) throw new Error(content.problem ?? form.dataset.failed);
  return content;
}

async function ceremony(form) {
  const options = await post(form.dataset.options, form);
  const ask = form.dataset.passkey === "make" ? make : use;
  try {
    form.elements.credential.value = await ask(options);
  } catch {
    throw new Error(form.dataset.failed);
  }
  const answer = await post(form.action, form);
  location.href = answer.location;
}

for (const form of $$("[data-passkey]")) {
  if (!isSupported()) continue;
  form.hidden = false;
  form.addEventListener("submit", async (submit) => {
    submit.preventDefault();
    const button = $("button", form), problem = $("[data-problem]", form);
    button.disabled = true;
    problem.textContent = "";
    try {
      await ceremony(form);
    } catch (failure) {
      problem.textContent = failure.message;
      button.disabled = false;
    }
  });
}

// --- the form -------------------------------------------------------------------------------------

const capsLock = $("[data-caps-lock]");
$("[data-sign-in] [type=password]")?.addEventListener("keyup", (key) => {
  capsLock.textContent = key.getModifierState?.("CapsLock") ? capsLock.dataset.capsLock : "";
});

for (const button of $$("[data-fill-in]")) {
  button.addEventListener("click", () => {
    const { username, password } = $("[data-sign-in]").elements;
    username.value = button.dataset.fillIn;
    password.value = `demo-${button.dataset.fillIn}`;
    $("[data-sign-in] .primary").focus();
  });
}

// --- the account ----------------------------------------------------------------------------------

const zone = $("[data-browser-zone]");
if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;

$("[data-preferences]")?.addEventListener("submit", ({ target }) => {
  const { value } = target.elements.theme;
  if (value) localStorage.setItem("theme", value);
  else localStorage.removeItem("theme");
});

$("[data-copy-link]")?.addEventListener("click", async ({ currentTarget }) => {
  const link = $("[data-link]");
  link.select();
  await navigator.clipboard?.writeText(link.value);
  $("span", currentTarget).textContent = currentTarget.dataset.copied;
});
