// Signing a decision with a passkey: before htmx sends a form by its button [data-sign], the browser
// has the passkey sign what the server says, and its answer goes along.
import { refreshItem } from "./item.js";
import { announce, tell } from "./page.js";
import { options, signWith } from "./passkeys.js";
import { word } from "./words.js";

async function sign(form, address) {
  await signWith(await options(address, new FormData(form)), form);
  // Another item, or a newer state of this one, may have taken its place.
  if (!form.isConnected) throw new Error(word("left_unsigned"));
}

async function signAndSend(form, button, send) {
  const buttons = [...document.querySelectorAll(`#item .decide button`), ...form.querySelectorAll("button")]
    .filter((each) => !each.disabled);
  for (const each of buttons) each.disabled = true;
  form.dataset.signing = "1"; // the item stays as it is meanwhile
  tell(form, "");
  let problem = "";
  try {
    await sign(form, button.dataset.sign);
  } catch (failure) { problem = failure.message; }
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
  if (!form.dataset.signing) signAndSend(form, button, () => issueRequest(true));
});
