// The unmodified HumanLayer client for JavaScript, for tests: says what it sees, one JSON line each.
//   node client.mjs <any> <approve|bound|ask|respond>
// Between two polls it says `waits`, and goes on with the next line of its input.
import { createInterface } from "node:readline";
import { HumanLayer } from "@humanlayer/sdk";

const what = process.argv[3];
const say = (line) => console.log(JSON.stringify(line));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const sleep = async () => {
  say({ seen: "waits" });
  await lines.next();
};
const layer = new HumanLayer({
  sleep,
  apiKey: process.env.HUMANLAYER_API_KEY,
  apiBaseUrl: process.env.HUMANLAYER_API_BASE,
});
const send_email = async ({ to }) => `sent to ${to}`;
const fly = async ({ rocket }) => `flew ${rocket} itself`;

const done = async () => {
  if (what === "approve") return layer.requireApproval()(send_email)({ to: "ann" });
  if (what === "bound") return layer.requireApproval()(fly)({ rocket: "ariane" });
  if (what === "ask") return layer.humanAsTool()({ message: "Ship it?" });
  const spec = { fn: "send_email", kwargs: { to: "ann" } };
  const call = await layer.createFunctionCall({ spec });
  return layer.backend
    .functions()
    .respond(call.call_id, { approved: true })
    .then(() => "it decided", String);
};
say({ seen: "result", text: await done() });
process.exit(0);
