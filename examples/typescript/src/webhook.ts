import { BadSignature } from "./errors.js";
import type { JsonObject } from "./shapes.js";

/**
 * The webhook's content. Throws `BadSignature`. The same `webhook-id` may come twice.
 *
 * `body`: as it came, before any parser. `headers`: as `fetch` or Node have them.
 */
export async function verifyWebhook(
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>,
  body: string | Uint8Array,
  secret: string,
  toleranceS = 300,
): Promise<JsonObject> {
  const found = headers instanceof Headers ? headers : new Headers(Object.entries(headers).map(
    ([name, value]): [string, string] => [name, String(value ?? "")]));
  const at = found.get("webhook-timestamp") ?? "";
  if (!/^\d+$/.test(at) || Math.abs(Date.now() / 1000 - Number(at)) > toleranceS)
    throw new BadSignature("Its timestamp is missing, or too far from this machine's clock.");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const head = new TextEncoder().encode(`${found.get("webhook-id") ?? ""}.${at}.`);
  const signed = new Uint8Array([...head, ...bytes]);
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const raw = fromBase64(secret.replace(/^whsec_/, ""));
  if (!raw.length) throw new TypeError("The webhook's secret is empty, or not one of Assent's.");
  const key = await crypto.subtle.importKey("raw", raw, hmac, false, ["verify"]);
  for (const given of (found.get("webhook-signature") ?? "").split(/\s+/)) {
    const signature = given.startsWith("v1,") ? fromBase64(given.slice(3)) : new Uint8Array();
    if (await crypto.subtle.verify("HMAC", key, signature, signed))
      return JSON.parse(new TextDecoder().decode(bytes)) as JsonObject;
  }
  throw new BadSignature("The signature does not fit: another secret, or another sender.");
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
