// A page's form that a passkey signs: the form asks for what is signed, with "sign", and goes along
// with the answers. Approve and allow signs twice: this one, then what is like it.
import { options, signWith } from "./passkeys.js";

const button = document.querySelector("[data-sign-form]");
const form = button?.form;

async function sign() {
  const body = new FormData(form);
  body.set("sign", "1");
  const asked = await options(form.action, body);
  if (asked.approve) await signWith(asked.approve, form);
  if (asked.grant) await signWith(asked.grant, form, "grant_");
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
