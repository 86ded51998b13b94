// An agent of Mastra with the tools of the AI SDK; the last line is what it was told in the end.
import process from "node:process";
import { Assent } from "@assent/client";
import { Agent } from "@mastra/core/agent";
import type { ToolsInput } from "@mastra/core/agent";
import { model } from "./ai_model.ts";
import { tools } from "./assent-ai-sdk.ts";

const run = { runId: String(process.argv[2]), timeoutMs: 1000 };
const agent = new Agent({
  id: "helpdesk", name: "Helpdesk", instructions: "Refund what arrived broken.",
  model: model as never, // its types are those of another version of the AI SDK's
  tools: (await tools(new Assent(), run)) as ToolsInput,
});
const { text } = await agent.generate("Refund Ana's lamp.", { maxSteps: 200 });
console.log(text);
