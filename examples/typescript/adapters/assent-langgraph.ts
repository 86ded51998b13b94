/**
 * LangGraph.js (and LangChain's agents): the graph pauses, Assent carries out, the graph resumes.
 * Copy this file.
 *
 *     const agent = createAgent({ model, tools: await tools(desk), checkpointer });
 *     await agent.invoke({ messages }, config); // returns when calls wait for sign-off
 *
 * Later, in any process, when Assent's webhook rings or from time to time:
 *
 *     const command = await settle(desk, agent.graph, config);
 *     if (command) await agent.invoke(command, config);
 *
 * The key of a proposal is the thread's id and the call's id: a graph that died between the
 * proposal and its checkpoint proposes the same again, and gets the same transaction.
 */
import { Refused, keyOf } from "@assent/client";
import type { Assent, JsonObject, JsonValue, Tool } from "@assent/client";
import { tool as toolOf } from "@langchain/core/tools";
import type { StructuredToolInterface, ToolRunnableConfig } from "@langchain/core/tools";
import { Command, interrupt } from "@langchain/langgraph";
import type { StateSnapshot } from "@langchain/langgraph";

interface Graph {
  getState(config: { configurable: { thread_id: string } }): Promise<StateSnapshot>;
}

/** The catalogue as tools; those that change the world wait for sign-off. */
export async function tools(desk: Assent): Promise<StructuredToolInterface[]> {
  return (await desk.tools()).map((one) => made(desk, one));
}

/** The input to invoke the graph with; `undefined` while each of its calls still waits. */
export async function settle(desk: Assent, graph: Graph, config: Parameters<Graph["getState"]>[0]) {
  const resume: Record<string, JsonObject> = {};
  for (const task of (await graph.getState(config)).tasks)
    for (const { id, value } of task.interrupts) {
      const waiting = value as { transactionId?: string } | undefined;
      if (!id || !waiting?.transactionId) continue;
      const outcome = await desk.get(waiting.transactionId);
      if (outcome.isFinal) resume[id] = outcome.forModel();
    }
  return Object.keys(resume).length ? new Command({ resume }) : undefined;
}

function made(desk: Assent, { name, description, schema, kind }: Tool) {
  const call = async (args: JsonObject, config: ToolRunnableConfig): Promise<JsonValue> => {
    try {
      if (kind === "readonly") return await desk.call(name, args);
      const runId = String(config.configurable?.thread_id);
      const key = await keyOf("langgraph", runId, String(config.toolCall?.id));
      const intent = await desk.prepare(name, args, { key, runId });
      // Whatever the graph is resumed with, only the ledger says how it ended. Resumed too early,
      // it pauses again.
      for (;;) {
        const outcome = await desk.get(intent.transactionId);
        if (outcome.isFinal) return outcome.forModel();
        interrupt(intent);
      }
    } catch (refusal) {
      if (refusal instanceof Refused) return refusal.forModel();
      throw refusal;
    }
  };
  return toolOf(call, { name, description: description || name, schema }) as StructuredToolInterface;
}
