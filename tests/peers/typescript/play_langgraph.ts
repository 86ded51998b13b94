// A graph pauses until people have decided; the last line is what its model was told.
import process from "node:process";
import { setTimeout } from "node:timers/promises";
import { Assent } from "@assent/client";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import type { BaseMessage } from "@langchain/core/messages";
import { Command, MemorySaver } from "@langchain/langgraph";
import { createAgent } from "langchain";
import { settle, tools } from "./assent-langgraph.ts";
import { next } from "./model.ts";

class Model extends BaseChatModel {
  _llmType() {
    return "a script";
  }
  override bindTools() {
    return this;
  }
  async _generate(messages: BaseMessage[]) {
    const results = messages.filter((one) => ToolMessage.isInstance(one));
    const step = next(results.length ? JSON.parse(String(results.at(-1)?.content)) : undefined);
    const message = step.does === "say" ? new AIMessage(step.text)
      : new AIMessage({ content: "", tool_calls: [{ name: step.tool, args: { ...step.with }, id: "call-0" }] });
    return { generations: [{ text: "", message }] };
  }
}

const desk = new Assent({ onQuestion: () => "The photos are in ticket 7." });
const agent = createAgent({ model: new Model({}), tools: await tools(desk), checkpointer: new MemorySaver() });
const config = { configurable: { thread_id: String(process.argv[2]) } };
let state = await agent.invoke({ messages: [{ role: "user", content: "Refund Ana's lamp." }] }, config);
const waiting = async () => (await agent.graph.getState(config)).tasks.flatMap((task) => task.interrupts);
// Resumed with something that is no decision, it goes on waiting.
const [forged] = await waiting();
if (forged?.id) state = await agent.invoke(new Command({ resume: { [forged.id]: { status: "succeeded" } } }), config);
while ((await waiting()).length) {
  const command = await settle(desk, agent.graph, config);
  if (command) state = await agent.invoke(command, config);
  else await setTimeout(100);
}
console.log(String(state.messages.at(-1)?.content));
