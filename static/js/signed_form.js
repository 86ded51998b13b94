// A page's form that a passkey signs: the form asks for what is signed, with "sign", and goes along
// with the answers. Approve and allow signs twice: this one, then what is like it.
import { isSupported, use } from "./passkeys.js";
import { word } from "./words.js";

const button = document.querySelector("[data-sign-form]");
const form = button?.form;

async function options() {
  const body = new FormData(form);
  body.set("sign", "1");
  let answer;
  try {
    answer = await fetch(form.action, { method: "POST", body });
  } catch { throw new Error(word("not_sent")); }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.problem ?? word("not_sent"));
  return content;
}

async function sign() {
  if (!isSupported()) throw new Error(word("cannot_sign"));
  const asked = await options();
  for (const [name, prefix] of [["approve", ""], ["grant", "grant_"]]) {
    if (!asked[name]) continue;
    try {
      form.elements[`${prefix}credential`].value = await use(asked[name]);
    } catch { throw new Error(word("not_signed")); }
    form.elements[`${prefix}nonce`].value = asked[name].nonce;
  }
}

form?.addEventListener("submit", async (submit) => {
  if (submit.submitter !== button) return;
  submit.preventDefault();
  const problem = form.querySelector("[data-problem]");
  problem.textContent = "";
  button.disabled = true;
  try {
    await sign();
    form.submit();
  } catch (failure) {
    problem.textContent = failure.message;
    button.disabled = false;
  }
});
