// A model that follows a script refunds once; the last line is what it was told in the end.
import process from "node:process";
import { Assent } from "@assent/client";
import { generateText, isStepCount } from "ai";
import { model } from "./ai_model.ts";
import { tools } from "./assent-ai-sdk.ts";

const run = { runId: String(process.argv[2]), timeoutMs: 1000 };
const { text } = await generateText({
  model, prompt: "Refund Ana's lamp.", tools: await tools(new Assent(), run), stopWhen: isStepCount(200),
});
console.log(text);
