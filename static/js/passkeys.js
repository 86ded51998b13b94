// Passkeys (WebAuthn): options of the server for the browser, and its answer as JSON.
import { leaveForSignIn } from "./page.js";
import { word } from "./words.js";

export const isSupported = () => Boolean(window.PublicKeyCredential && navigator.credentials);

const bytes = (text) =>
  Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

const decoded = (list) => (list ?? []).map((each) => ({ ...each, id: bytes(each.id) }));

function encoded(credential) {
  const { response } = credential;
  const answer = { clientDataJSON: text(response.clientDataJSON) };
  for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (response[name]) answer[name] = text(response[name]);
  }
  return JSON.stringify({
    id: credential.id,
    rawId: text(credential.rawId),
    type: credential.type,
    clientExtensionResults: credential.getClientExtensionResults(),
    response: answer,
  });
}

/** Makes a passkey. Rejects if the person cancels, or the browser will not. */
export async function make({ publicKey }) {
  return encoded(await navigator.credentials.create({
    publicKey: {
      ...publicKey,
      challenge: bytes(publicKey.challenge),
      user: { ...publicKey.user, id: bytes(publicKey.user.id) },
      excludeCredentials: decoded(publicKey.excludeCredentials),
    },
  }));
}

/** Uses a passkey: signs the challenge. Rejects as ``make`` does. */
export async function use({ publicKey }) {
  return encoded(await navigator.credentials.get({
    publicKey: {
      ...publicKey,
      challenge: bytes(publicKey.challenge),
      allowCredentials: decoded(publicKey.allowCredentials),
    },
  }));
}

// --- signing a decision ---------------------------------------------------------------------------

/** What the server has the browser sign. Rejects with the problem in words. */
export async function options(address, body) {
  if (!isSupported()) throw new Error(word("cannot_sign"));
  let answer;
  try {
    const headers = { "HX-Request": "true" };
    answer = await fetch(address, { method: "POST", body, headers, redirect: "manual" });
  } catch { throw new Error(word("not_sent")); }
  if (answer.status === 401 || answer.type === "opaqueredirect") leaveForSignIn();
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.problem ?? word("not_sent"));
  return content;
}

/** Has the passkey sign, and its answer go along with the form. */
export async function signWith(asked, form, prefix = "") {
  try {
    form.elements[`${prefix}credential`].value = await use(asked);
  } catch { throw new Error(word("not_signed")); }
  form.elements[`${prefix}nonce`].value = asked.nonce;
}
