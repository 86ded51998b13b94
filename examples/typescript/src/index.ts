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
import type { components } from "./api.js";

type Schemas = components["schemas"];
type Row = Schemas["TransactionOut"];
export type JsonValue =
  | string | number | boolean | null | readonly JsonValue[] | { readonly [name: string]: JsonValue };
export type JsonObject = { readonly [name: string]: JsonValue };
export type Arguments = { readonly [name: string]: unknown };

const PATIENCE_MS = 60_000; // how long requests are repeated while Assent is busy or out of reach
const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 30_000;
const LONG_POLL_MS = 30_000;
const BUSY = new Set([429, 500, 502, 503, 504]);
// Refusals after which a proposal with other arguments makes sense.
const CORRECTABLE = new Set(["invalid_arguments", "invalid_request", "plan_refused", "unsafe_text"]);
const TASK_ENDED = new Set(["completed", "failed", "canceled", "rejected"]);
const TRANSACTIONS = "/api/v1/transactions";

/** The tree: `Refused`, `Unreachable`, `NotAnswered`, `BadSignature`. `code` is stable. */
export class AssentError extends Error {
  constructor(readonly code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Assent did not answer in time. Repeat with the same key: nothing is done twice. */
export class Unreachable extends AssentError {
  constructor(message: string, options?: ErrorOptions) {
    super("unreachable", message, options);
  }
}

/** Nobody answered the question. The text says why. */
export class NotAnswered extends AssentError {
  constructor(message: string) {
    super("not_answered", message);
  }
}

/** A webhook that Assent did not send, or that is too old. */
export class BadSignature extends AssentError {
  constructor(message: string) {
    super("bad_signature", message);
  }
}

/** Assent refused a request; nothing was proposed. `hint` helps. */
export class Refused extends AssentError {
  readonly hint: string;
  readonly errors: readonly Schemas["FieldError"][];

  constructor(readonly status: number, problem: Partial<Schemas["Problem"]>) {
    const hint = problem.hint ?? "";
    const detail = problem.detail || problem.title || `HTTP ${status}`;
    super(problem.code ?? "", `${detail} ${hint}`.trim());
    this.hint = hint;
    this.errors = problem.errors ?? [];
  }

  /** The same members as those of `Outcome.forModel`, as far as there is a transaction. */
  forModel(): JsonObject {
    return {
      status: "refused",
      message: `It was not proposed, and nothing was carried out. ${this.message}`,
      do_not_retry: !CORRECTABLE.has(this.code),
      code: this.code,
      errors: this.errors.map(({ field, message }) => ({ field, message })),
    };
  }
}

/** One entry of the catalogue. `schema`: JSON Schema of the arguments. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly schema: JsonObject;
  /** "transactional" waits for sign-off, "readonly" answers at once. */
  readonly kind: "transactional" | "readonly";
}

/** A proposal that waits for sign-off. `url`: where people decide. */
export interface Intent {
  readonly transactionId: string;
  readonly summary: string;
  readonly warnings: readonly string[];
  readonly expiresAt: string;
  readonly url: string;
}

interface Known {
  readonly transactionId: string;
  /** To be given to the model as it is. */
  readonly sentence: string;
  readonly doNotRetry: boolean;
  readonly url: string;
  readonly reason: string;
  readonly decidedBy: readonly string[];
  /** What people changed. */
  readonly changed: readonly JsonObject[];
  /** Waits for an answer, unless it is empty. */
  readonly question: string;
  /** Why it was sent back, unless it is empty. */
  readonly changeRequest: string;
  /** The outcome for the model of any framework: plain JSON. */
  forModel(): JsonObject;
}

/** `pending` and `in_doubt` are not final: neither is a failure. */
export type Outcome =
  | (Known & { readonly kind: "pending" | "in_doubt"; readonly isFinal: false })
  | (Known & {
      readonly kind: "succeeded";
      readonly isFinal: true;
      readonly receipt: string;
      readonly receiptUrl: string;
      readonly result: JsonObject | null;
    })
  | (Known & {
      readonly kind: "handed_over" | "refused" | "expired" | "withdrawn" | "failed";
      readonly isFinal: true;
    });

export interface Cancellable {
  readonly signal?: AbortSignal | undefined;
}

/** `key`: the same key is the same transaction, in whichever process and however often. */
export interface More extends Cancellable {
  readonly key?: string;
  /** Why; the approver reads it. */
  readonly reason?: string;
  readonly runId?: string;
  readonly stepId?: string;
  /** The id of what was sent back, where this follows it. */
  readonly replaces?: string;
  readonly ttlS?: number;
}

export interface Options {
  /** Else the environment's ASSENT_URL, else http://localhost:8000. */
  readonly url?: string;
  /** Else the environment's ASSENT_TOKEN. */
  readonly token?: string;
  /** Answers what people ask about a proposal. Without it `wait` returns with the question. */
  readonly onQuestion?: (outcome: Outcome) => string | Promise<string>;
  readonly fetch?: typeof globalThis.fetch;
}

interface Request {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal | undefined;
  readonly patienceMs?: number;
}

interface Answer<T> {
  readonly status: number;
  readonly etag: string;
  readonly body: T;
}

export class Assent {
  readonly #url: string;
  readonly #token: string;
  readonly #onQuestion: Options["onQuestion"];
  readonly #fetch: typeof globalThis.fetch;

  constructor({ url, token, onQuestion, fetch }: Options = {}) {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
    this.#url = (url || process?.env?.ASSENT_URL || "http://localhost:8000").replace(/\/+$/, "");
    this.#token = token || process?.env?.ASSENT_TOKEN || "";
    if (!this.#token) throw new TypeError("Assent needs a token: the option, or ASSENT_TOKEN.");
    this.#onQuestion = onQuestion;
    this.#fetch = fetch ?? ((...said) => globalThis.fetch(...said));
  }

  /** The tools that this token may use. */
  async tools({ signal }: Cancellable = {}): Promise<Tool[]> {
    const { body } = await this.#send<Schemas["ToolOut"][]>("GET", "/api/v1/tools", { signal });
    return body.map(({ name, description, kind, input_schema }) => ({
      name, description, kind, schema: input_schema as JsonObject,
    }));
  }

  /** The result of a tool that only reads. Throws `Refused`. */
  async call(tool: string, args: Arguments, { signal }: Cancellable = {}): Promise<JsonValue> {
    const path = `/api/v1/tools/${encodeURIComponent(tool)}/call`;
    const said = { body: { arguments: args }, signal };
    return (await this.#send<{ result: JsonValue }>("POST", path, said)).body.result;
  }

  /** Propose. Nothing happens until it is signed off. Throws `Refused`, `Unreachable`. */
  async prepare(tool: string, args: Arguments, more: More = {}): Promise<Intent> {
    const { key, signal, reason, runId, stepId, replaces, ttlS } = more;
    const { body } = await this.#send<Schemas["Prepared"]>("POST", TRANSACTIONS, {
      headers: { "Idempotency-Key": `"${key || crypto.randomUUID()}"` },
      body: { tool, arguments: args, reason, run_id: runId, step_id: stepId, replaces, ttl_s: ttlS },
      signal,
    });
    return {
      transactionId: body.transaction_id,
      summary: body.action_summary,
      warnings: body.warnings,
      expiresAt: body.expires_at,
      url: body.links.desk,
    };
  }

  /** The transaction as it is now. */
  async get(transactionId: string, { signal }: Cancellable = {}): Promise<Outcome> {
    return outcomeOf((await this.#read(transactionId, signal)).body);
  }

  /**
   * Its final outcome; after `timeoutMs` how it stands then, perhaps not final, and so as soon as
   * it has a question that nobody answers here.
   */
  async wait(
    transactionId: string,
    { timeoutMs = Infinity, signal }: Cancellable & { readonly timeoutMs?: number } = {},
  ): Promise<Outcome> {
    const giveUpAt = performance.now() + timeoutMs;
    let left = timeoutMs;
    let known = await this.#read(transactionId, signal, Math.max(PATIENCE_MS, left));
    while (!this.#hasNews(known.body) && (left = giveUpAt - performance.now()) > 0) {
      const url = new URL(known.body.links.wait);
      url.searchParams.set("wait", (Math.min(left, LONG_POLL_MS) / 1000).toFixed(1));
      const askedAt = performance.now();
      const answer = await this.#send<Row>("GET", url.href, {
        headers: { "If-None-Match": known.etag },
        patienceMs: Math.max(PATIENCE_MS, left),
        signal,
      });
      if (answer.status === 200) known = await this.#answered(answer, signal);
      else if (performance.now() - askedAt < 1000) // it did not hold the request
        await pause(Math.min(FIRST_PAUSE_MS, left), signal);
    }
    return outcomeOf(known.body);
  }

  /** Answer the question that it has. Throws `Refused` where none waits. */
  async answer(transactionId: string, text: string, { signal }: Cancellable = {}): Promise<Outcome> {
    const said = { body: { text }, signal };
    return outcomeOf((await this.#send<Row>("POST", pathOf(transactionId, "/answer"), said)).body);
  }

  /** Take a proposal back, as long as nobody has decided. Throws `Refused`. */
  async cancel(transactionId: string, reason = "", { signal }: Cancellable = {}): Promise<Outcome> {
    const said = { body: { reason }, signal };
    return outcomeOf((await this.#send<Row>("POST", pathOf(transactionId, "/cancel"), said)).body);
  }

  /** A person's answer; needs the scope `submit`. Throws `NotAnswered`, `Refused`. */
  async ask(
    text: string,
    options: readonly string[] = [],
    more: Cancellable & { readonly key?: string; readonly ttlS?: number } = {},
  ): Promise<string> {
    const { key, ttlS = 600, signal } = more;
    const form = options.length ? { type: "string", enum: options } : undefined;
    let { body: task } = await this.#send<Schemas["TaskOut"]>("POST", "/api/v1/tasks", {
      headers: { "Idempotency-Key": `"${key || crypto.randomUUID()}"` },
      body: { skill: "ask_a_person", input: { text, ttl_s: ttlS, form } },
      signal,
    });
    while (!TASK_ENDED.has(task.state)) {
      await pause((task.retry_after_s || 0) * 1000 || FIRST_PAUSE_MS, signal);
      const patienceMs = LONGEST_PAUSE_MS + PATIENCE_MS;
      const path = `/api/v1/tasks/${encodeURIComponent(task.task_id)}`;
      ({ body: task } = await this.#send<Schemas["TaskOut"]>("GET", path, { patienceMs, signal }));
    }
    if (task.state !== "completed") throw new NotAnswered(task.reason?.detail || `It was ${task.state}.`);
    return (task.result as { answer: string }).answer;
  }

  async #read(id: string, signal?: AbortSignal, patienceMs = PATIENCE_MS): Promise<Answer<Row>> {
    return this.#answered(await this.#send<Row>("GET", pathOf(id), { signal, patienceMs }), signal);
  }

  /** The transaction once the question in it, if there is one, was answered. */
  async #answered(answer: Answer<Row>, signal?: AbortSignal): Promise<Answer<Row>> {
    const { question, transaction_id: id } = answer.body;
    if (question === null || !this.#onQuestion) return answer;
    const text = await this.#onQuestion(outcomeOf(answer.body));
    try {
      return await this.#send<Row>("POST", pathOf(id, "/answer"), { body: { text }, signal });
    } catch (refusal) {
      // It was decided meanwhile, or answered.
      if (!(refusal instanceof Refused) || refusal.status !== 409) throw refusal;
    }
    return this.#send<Row>("GET", pathOf(id), { signal });
  }

  #hasNews({ question, outcome }: Row): boolean {
    return outcome.is_final || (question !== null && !this.#onQuestion);
  }

  /** The answer, asked for again while Assent is busy or out of reach. */
  async #send<T>(method: string, to: string, request: Request): Promise<Answer<T>> {
    const { body, headers, signal, patienceMs = PATIENCE_MS } = request;
    const giveUpAt = performance.now() + patienceMs;
    const said: RequestInit = {
      method,
      redirect: "manual",
      headers: {
        Authorization: `Bearer ${this.#token}`,
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
    for (let delay = FIRST_PAUSE_MS; ; delay = Math.min(2 * delay, LONGEST_PAUSE_MS)) {
      signal?.throwIfAborted();
      let failure: AssentError;
      try {
        const limit = AbortSignal.timeout(LONG_POLL_MS + 15_000);
        const answer = await this.#fetch(to.startsWith("/") ? this.#url + to : to, {
          ...said,
          signal: signal ? AbortSignal.any([signal, limit]) : limit,
        });
        const read = parsed(await answer.text());
        if (answer.status === 304 || (answer.ok && read !== undefined))
          return { status: answer.status, etag: answer.headers.get("ETag") ?? "", body: read as T };
        if (answer.ok) throw new Refused(answer.status, { code: "not_assent", detail: NOT_ASSENT });
        failure = new Refused(answer.status, (read ?? {}) as Partial<Schemas["Problem"]>);
        if (!BUSY.has(answer.status) && failure.code !== "request_in_progress") throw failure;
        const asked = answer.headers.get("Retry-After") ?? "";
        delay = Math.max(delay, /^\d+$/.test(asked) ? Number(asked) * 1000 : 0);
      } catch (error) {
        if (error instanceof AssentError) throw error;
        signal?.throwIfAborted();
        failure = new Unreachable(`Assent does not answer (${String(error)}).`, { cause: error });
      }
      if (performance.now() + delay > giveUpAt) throw failure;
      await pause(delay, signal);
    }
  }
}

const NOT_ASSENT = "Something else than Assent answers at this address.";

/** An idempotency key of a run's id and a call's id: the same parts, the same transaction. */
export async function keyOf(...parts: string[]): Promise<string> {
  const escaped = (part: string) =>
    JSON.stringify(part).replace(/[^ -~]/g, (unit) =>
      "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"));
  const bytes = new TextEncoder().encode(`[${parts.map(escaped).join(", ")}]`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The webhook's content. Throws `BadSignature`. The same `webhook-id` may come twice. */
export async function verifyWebhook(
  headers: Headers | Readonly<Record<string, string>>,
  body: string | Uint8Array,
  secret: string,
  toleranceS = 300,
): Promise<JsonObject> {
  const found = new Headers(headers);
  const at = found.get("webhook-timestamp") ?? "";
  if (!/^\d+$/.test(at) || Math.abs(Date.now() / 1000 - Number(at)) > toleranceS)
    throw new BadSignature("Its timestamp is missing, or too far from this machine's clock.");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const head = new TextEncoder().encode(`${found.get("webhook-id") ?? ""}.${at}.`);
  const signed = new Uint8Array([...head, ...bytes]);
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const raw = fromBase64(secret.replace(/^whsec_/, ""));
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

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function pathOf(transactionId: string, verb = ""): string {
  return `${TRANSACTIONS}/${encodeURIComponent(transactionId)}${verb}`;
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => (clearTimeout(timer), reject(signal?.reason));
    const timer = setTimeout(() => (signal?.removeEventListener("abort", stop), resolve()), ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function outcomeOf(row: Row): Outcome {
  const { kind, is_final, sentence, do_not_retry } = row.outcome;
  const { receipt, receipt_url, ending_reason: reason, links, transaction_id } = row;
  const result = row.result as JsonObject | null;
  const changed = row.changed as unknown as JsonObject[];
  const decidedBy = row.decisions.map((one) => one.principal_name || one.principal);
  const question = row.question?.text ?? "";
  const changeRequest = row.change_request?.text ?? "";
  const succeeded = kind === "succeeded";
  return {
    transactionId: transaction_id,
    kind,
    isFinal: is_final,
    sentence,
    doNotRetry: do_not_retry,
    url: links.desk,
    reason,
    decidedBy,
    changed,
    question,
    changeRequest,
    ...(succeeded && { receipt, receiptUrl: receipt_url, result }),
    forModel: () => ({
      status: kind,
      message: sentence,
      do_not_retry,
      decided_by: decidedBy,
      transaction_id,
      url: links.desk,
      changed,
      ...(question && { question }),
      ...(changeRequest && { change_request: changeRequest, replaces: transaction_id }),
      ...(succeeded ? { receipt, receipt_url, result } : { reason }),
    }),
  } as Outcome;
}
