/**
 * NO DESK: a play of one in the memory of this process, to try an agent before there is a server.
 * Nobody signs off, nothing is kept, and whoever runs the program decides.
 *
 *     const desk = new DevelopmentDesk(
 *       { refund_customer: { run: ({ payment_id }) => ({ refunded: payment_id }) } },
 *       (desk, { transactionId }) => desk.approve(transactionId), // or refuse, expire, ask
 *     );
 *     const assent = desk.client();
 *
 * No setting turns it on: a program has to build it. All of `Assent` works but `ask`.
 */
import { Assent } from "./client.js";
import type { Options } from "./client.js";
import { clock } from "./clock.js";
import type { JsonObject, JsonValue } from "./shapes.js";

const ADDRESS = "http://development.invalid"; // nobody's, ever (RFC 2606)
const SAYS = "[development: no desk]";

export interface DevelopmentTool {
  readonly run: (args: JsonObject) => JsonValue | Promise<JsonValue>;
  readonly description?: string;
  readonly schema?: JsonObject;
  readonly kind?: "transactional" | "readonly";
}

export interface Proposal {
  readonly transactionId: string;
  readonly tool: string;
  readonly arguments: JsonObject;
  /** What was answered to `ask`. */
  readonly answers: readonly string[];
}

interface Kept extends Proposal {
  readonly answers: string[];
  readonly row: ReturnType<typeof rowOf>;
  revision: number;
}
type Decide = (desk: DevelopmentDesk, proposal: Proposal) => void | Promise<void>;

export class DevelopmentDesk {
  readonly #tools: ReadonlyMap<string, Required<DevelopmentTool>>;
  readonly #decide: Decide;
  readonly #kept = new Map<string, Kept>(); // by id, and by idempotency key
  #change = new AbortController();

  /** `decide` is called for each proposal, and again once its question is answered. */
  constructor(tools: Readonly<Record<string, DevelopmentTool>>, decide: Decide = () => {}) {
    console.warn(`${SAYS} Nobody signs off and nothing is kept: not for an agent at work.`);
    this.#tools = new Map(Object.entries(tools).map(([name, tool]) =>
      [name, { description: "", schema: { type: "object" }, kind: "transactional", ...tool }]));
    this.#decide = decide;
  }

  client(options: Pick<Options, "onQuestion"> = {}): Assent {
    const fetch: typeof globalThis.fetch = async (to, said) => this.#answer(new URL(String(to)), said);
    return new Assent({ ...options, url: ADDRESS, token: "development", fetch });
  }

  async approve(id: string): Promise<void> {
    const kept = this.#put(id, outcome("in_doubt", "It is being carried out."));
    try {
      const result = await this.#tools.get(kept.tool)!.run(kept.arguments);
      const receipt = { receipt: `development-${id}`, result };
      this.#put(id, { ...outcome("succeeded", "It was carried out."), ...receipt }, "in_doubt");
    } catch (error) {
      this.#put(id, { ...outcome("failed", "It failed."), ending_reason: String(error) }, "in_doubt");
    }
  }

  refuse(id: string, reason: string): void {
    this.#put(id, { ...outcome("refused", `It was refused: "${reason}".`), ending_reason: reason });
  }

  expire(id: string): void {
    this.#put(id, outcome("expired", "Nobody decided in time."));
  }

  /** As people do who want to know something of the agent before they decide. */
  ask(id: string, text: string): void {
    this.#put(id, { question: { text, by: "development", at: new Date().toISOString() } });
  }

  #put(id: string, changes: object, from = "pending"): Kept {
    const kept = this.#kept.get(id);
    if (kept?.row.outcome.kind !== from) throw new Error(`${id} does not wait for sign-off.`);
    Object.assign(kept.row, { question: null }, changes);
    kept.revision += 1;
    this.#change.abort();
    this.#change = new AbortController();
    return kept;
  }

  async #answer({ pathname, searchParams }: URL, sent: RequestInit = {}): Promise<Response> {
    const [, , , what, id = "", verb] = pathname.split("/").map(decodeURIComponent);
    const headers = new Headers(sent.headers);
    const said = JSON.parse(String(sent.body ?? "{}"));
    if (what === "tools") {
      const tool = this.#tools.get(id);
      if (tool?.kind === "readonly") return Response.json({ result: (await tool.run(said.arguments)) ?? null });
      if (!id) return Response.json([...this.#tools].map(([name, { schema, description, kind }]) =>
        ({ name, description, kind, input_schema: schema })));
    }
    if (what === "transactions" && !id && this.#tools.get(said.tool)?.kind === "transactional")
      return Response.json(this.#prepare(said, headers.get("Idempotency-Key")!).row, { status: 201 });
    const kept = this.#kept.get(id);
    if (what !== "transactions" || !kept) return problem(404, "not_found", `There is no ${said.tool ?? pathname}.`);
    if (verb && (kept.row.outcome.kind !== "pending" || (verb === "answer" && !kept.row.question)))
      return problem(409, "not_possible", "It does not wait for that.");
    if (verb === "cancel") this.#put(id, { ...outcome("withdrawn", "It was taken back."), ending_reason: said.reason });
    if (verb === "answer") kept.answers.push(said.text), this.#put(id, {}), this.#ring(kept);
    const isKnown = () => headers.get("If-None-Match") === `"${kept.revision}"`;
    if (isKnown()) {
      const change = AbortSignal.any([this.#change.signal, ...(sent.signal ? [sent.signal] : [])]);
      await clock.pause(Number(searchParams.get("wait")) * 1000, change).catch(() => sent.signal?.throwIfAborted());
    }
    if (isKnown()) return new Response(null, { status: 304 });
    return Response.json(kept.row, { headers: { ETag: `"${kept.revision}"` } });
  }

  #prepare({ tool, arguments: args }: { tool: string; arguments: JsonObject }, key: string): Kept {
    const known = this.#kept.get(key);
    if (known) return known;
    const id = crypto.randomUUID();
    const kept = { transactionId: id, tool, arguments: args, answers: [], revision: 1, row: rowOf(id, tool) };
    this.#kept.set(key, kept).set(id, kept);
    this.#ring(kept);
    return kept;
  }

  /** Once the answer is on its way. */
  #ring(kept: Kept): void {
    setTimeout(() => void this.#decide(this, kept));
  }
}

function outcome(kind: string, words: string) {
  const is_final = kind !== "pending" && kind !== "in_doubt";
  return { outcome: { kind, is_final, sentence: `${SAYS} ${words}`, do_not_retry: true } };
}

function rowOf(id: string, tool: string) {
  const address = `${ADDRESS}/api/v1/transactions/${id}`;
  return {
    transaction_id: id, action_summary: `${SAYS} ${tool}`, warnings: [SAYS], expires_at: "2100-01-01T00:00:00Z",
    links: { self: address, wait: `${address}?wait=30`, desk: `${ADDRESS}/transactions/${id}/` },
    ...outcome("pending", "It waits for sign-off."), ending_reason: "", decisions: [], receipt: "",
    receipt_url: "", result: null, changed: [], question: null as unknown, change_request: null,
  };
}

function problem(status: number, code: string, detail: string): Response {
  return Response.json({ code, detail: `${SAYS} ${detail}` }, { status });
}
