// That model behind the interface of the AI SDK, which Mastra takes too.
import { MockLanguageModelV4 } from "ai/test";
import { next } from "./model.ts";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
export const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => {
    const results = prompt.flatMap(({ role, content }) => (role === "tool" ? content : []))
      .flatMap((part) => (part.type === "tool-result" ? [part.output] : []));
    const told = results.at(-1);
    const step = next(told?.type === "json" ? told.value : undefined);
    if (step.does === "say")
      return { content: [{ type: "text", text: step.text }], finishReason: { unified: "stop", raw: "" }, usage, warnings: [] };
    const call = { toolCallId: `call-${results.length}`, toolName: step.tool, input: JSON.stringify(step.with) };
    return { content: [{ type: "tool-call", ...call }], finishReason: { unified: "tool-calls", raw: "" }, usage, warnings: [] };
  },
});
