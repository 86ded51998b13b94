// Vercel's AI SDK with the A2A provider: a turn for each line that it reads, one JSON line each.
//   node client.mjs <address of the agent> <token>
import { createInterface } from "node:readline";
import { a2a } from "a2a-ai-provider";
import { generateText } from "ai";

const [address, token] = process.argv.slice(2);
console.log = console.info = console.error; // the provider writes between our lines
const plainFetch = globalThis.fetch;
globalThis.fetch = (to, options = {}) => {
  const headers = new Headers(options.headers);
  headers.set("Authorization", `Bearer ${token}`);
  return plainFetch(to, { ...options, headers });
};
for await (const line of createInterface({ input: process.stdin })) {
  const result = await generateText({ model: a2a(address), prompt: line });
  process.stdout.write(JSON.stringify({ over: true, read: result.text }) + "\n");
}
