// Signing a decision with a passkey: before htmx sends a form by its button [data-sign], the browser
// has the passkey sign what the server says, and its answer goes along.
import { refreshItem } from "./item.js";
import { announce, leaveForSignIn, tell } from "./page.js";
import { isSupported, use } from "./passkeys.js";
import { word } from "./words.js";

const signs = new WeakSet(); // forms whose passkey is being asked

async function options(address, form) {
  let answer;
  try {
    const headers = { "HX-Request": "true" };
    answer = await fetch(address, { method: "POST", body: new FormData(form), headers, redirect: "manual" });
  } catch { throw new Error(word("not_sent")); }
  if (answer.status === 401 || answer.type === "opaqueredirect") leaveForSignIn();
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.problem ?? word("not_sent"));
  return content;
}

async function sign(form, address) {
  if (!isSupported()) throw new Error(word("cannot_sign"));
  const asked = await options(address, form);
  try {
    form.elements.credential.value = await use(asked);
  } catch { throw new Error(word("not_signed")); }
  form.elements.nonce.value = asked.nonce;
  // Another item, or a newer state of this one, may have taken its place.
  if (!form.isConnected) throw new Error(word("left_unsigned"));
}

async function signAndSend(form, button, send) {
  const buttons = [...document.querySelectorAll(`#item .decide button`), ...form.querySelectorAll("button")]
    .filter((each) => !each.disabled);
  for (const each of buttons) each.disabled = true;
  form.dataset.signing = "1"; // the item stays as it is meanwhile
  signs.add(form);
  tell(form, "");
  let problem = "";
  try {
    await sign(form, button.dataset.sign);
  } catch (failure) { problem = failure.message; }
  signs.delete(form);
  delete form.dataset.signing;
  for (const each of buttons) each.disabled = false;
  if (!problem) { send(); return; }
  form.elements.credential.value = form.elements.nonce.value = "";
  await refreshItem();
  const shown = document.getElementById(form.id) ?? form;
  if (shown.isConnected) tell(shown, problem); else announce(problem);
  if (button.isConnected) button.focus();
}

document.addEventListener("htmx:confirm", (ask) => {
  const { elt: form, triggeringEvent, issueRequest } = ask.detail;
  const button = triggeringEvent?.submitter;
  if (button?.dataset.sign === undefined) return;
  ask.preventDefault();
  if (!signs.has(form)) signAndSend(form, button, () => issueRequest(true));
});
