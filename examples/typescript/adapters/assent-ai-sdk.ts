/**
 * AI SDK: a call proposes, and returns what people decided. Copy this file.
 *
 *     await generateText({ model, prompt, tools: await tools(desk, { runId: "run-7" }), stopWhen });
 *
 * After `timeoutMs` a call returns `pending`; the model then calls `assent_wait`. What people ask
 * about a proposal it answers by `assent_answer`, unless the desk has an `onQuestion`. The key of a
 * proposal is the run's id and the call's id: the same call is the same transaction for ever.
 */
import { Refused, keyOf } from "@assent/client";
import type { Assent, JsonObject, JsonValue, Outcome, Tool } from "@assent/client";
import { dynamicTool, jsonSchema } from "ai";
import type { ToolSet } from "ai";

export interface Run {
  readonly runId: string;
  readonly timeoutMs?: number;
}

/** The catalogue as tools; those that change the world wait for sign-off. */
export async function tools(desk: Assent, { runId, timeoutMs = 50_000 }: Run): Promise<ToolSet> {
  const wait = async (id: string, signal?: AbortSignal): Promise<Outcome> =>
    desk.wait(id, { timeoutMs, signal });

  const ofDesk = ({ name, description, schema, kind }: Tool) =>
    made(description || name, schema, async (args, call, signal) => {
      if (kind === "readonly") return desk.call(name, args, { signal });
      const key = await keyOf("ai-sdk", runId, call);
      const { transactionId } = await desk.prepare(name, args, { key, runId, signal });
      return (await wait(transactionId, signal)).forModel();
    });

  return {
    ...Object.fromEntries((await desk.tools()).map((tool) => [tool.name, ofDesk(tool)])),
    assent_wait: made("Wait on for the outcome of a proposal that is pending.", texts("transaction_id"),
      async ({ transaction_id: id }, _, signal) => (await wait(String(id), signal)).forModel()),
    assent_answer: made("Answer the question that people have about a proposal, and wait on.",
      texts("transaction_id", "text"), async ({ transaction_id: id, text }, _, signal) => {
        await desk.answer(String(id), String(text), { signal });
        return (await wait(String(id), signal)).forModel();
      }),
  };
}

type Execute = (args: JsonObject, callId: string, signal?: AbortSignal) => Promise<JsonValue>;

function made(description: string, schema: JsonObject, execute: Execute) {
  return dynamicTool({
    description,
    inputSchema: jsonSchema(schema),
    execute: async (args, { toolCallId, abortSignal }) => {
      try {
        return await execute(args as JsonObject, toolCallId, abortSignal);
      } catch (refusal) {
        if (refusal instanceof Refused) return refusal.forModel();
        throw refusal;
      }
    },
  });
}

function texts(...names: string[]): JsonObject {
  const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  return { type: "object", properties, required: names, additionalProperties: false };
}
