import type { components } from "./api.js";
import { clock } from "./clock.js";
import { AssentError, BUSY, NotAnswered, Refused, Unreachable } from "./errors.js";
import { outcomeOf } from "./shapes.js";
import type { Arguments, Intent, JsonObject, JsonValue, Outcome, Row, Tool } from "./shapes.js";

type Schemas = components["schemas"];

const PATIENCE_MS = 60_000; // how long requests are repeated while Assent is busy or out of reach
const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 30_000;
const LONG_POLL_MS = 30_000;
const TASK_ENDED = new Set(["completed", "failed", "canceled", "rejected"]);
const TRANSACTIONS = "/api/v1/transactions";

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
    if (!/^https?:\/\//.test(this.#url))
      throw new TypeError(`${this.#url} is no address: it begins with neither http:// nor https://.`);
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
    const giveUpAt = clock.now() + timeoutMs;
    let left = timeoutMs;
    let known = await this.#read(transactionId, signal, Math.max(PATIENCE_MS, left));
    while (!this.#hasNews(known.body) && (left = giveUpAt - clock.now()) > 0) {
      const url = new URL(known.body.links.wait);
      url.searchParams.set("wait", (Math.min(left, LONG_POLL_MS) / 1000).toFixed(1));
      const askedAt = clock.now();
      const answer = await this.#send<Row>("GET", url.href, {
        headers: { "If-None-Match": known.etag },
        patienceMs: Math.max(PATIENCE_MS, left),
        signal,
      });
      if (answer.status === 200) known = await this.#answered(answer, signal);
      else if (clock.now() - askedAt < 1000) // it did not hold the request
        await clock.pause(Math.min(FIRST_PAUSE_MS, left), signal);
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
      await clock.pause((task.retry_after_s || 0) * 1000 || FIRST_PAUSE_MS, signal);
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
    const giveUpAt = clock.now() + patienceMs;
    // Made here, so that a key or token that no header can carry is said at once.
    const said: RequestInit = {
      method,
      redirect: "manual",
      headers: new Headers({
        Authorization: `Bearer ${this.#token}`,
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...headers,
      }),
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
        if (answer.ok) throw new Unreachable("Something else than Assent answers at this address.");
        failure = new Refused(answer.status, (read ?? {}) as Partial<Schemas["Problem"]>);
        if (!BUSY.has(answer.status) && failure.code !== "request_in_progress") throw failure;
        const asked = answer.headers.get("Retry-After") ?? "";
        delay = Math.max(delay, /^\d+$/.test(asked) ? Number(asked) * 1000 : 0);
      } catch (error) {
        if (error instanceof AssentError) throw error;
        signal?.throwIfAborted();
        failure = new Unreachable(`Assent does not answer at ${this.#url} (${String(error)}).`, { cause: error });
      }
      if (clock.now() + delay > giveUpAt) throw failure;
      await clock.pause(delay, signal);
    }
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
