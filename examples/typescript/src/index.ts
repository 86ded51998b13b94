/**
 * A client of Assent's REST interface, on `fetch` and WebCrypto alone.
 *
 *     const desk = new Assent({ url, token });
 *     const intent = await desk.prepare("refund_customer", { payment_id: "pay_1042" }, { key: "run-7/call-1" });
 *     const outcome = await desk.wait(intent.transactionId, { timeoutMs: 60_000 });
 *     outcome.forModel(); // what the language model is told
 *
 * Assent carries a transaction out, or not; this client never does. Requests are repeated while
 * Assent is busy or out of reach, which is safe: each proposal has an idempotency key, and the
 * same key is the same transaction for ever.
 */
export { Assent } from "./client.js";
export type { Cancellable, More, Options } from "./client.js";
export { AssentError, BadSignature, NotAnswered, Refused, Unreachable } from "./errors.js";
export { keyOf } from "./keys.js";
export type { Arguments, Change, Intent, JsonObject, JsonValue, Outcome, Tool } from "./shapes.js";
export { verifyWebhook } from "./webhook.js";
