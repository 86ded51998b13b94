// A client built on the JavaScript SDK, for tests: says what it sees, one JSON line each.
//   node client.mjs <base-url> <token> <JSONRPC|HTTP+JSON|0.3> <answer>
// It submits a task by a stream, answers the question that comes, then reads, lists and cancels.
import { randomUUID } from "node:crypto";
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory,
} from "@a2a-js/sdk/client";
import * as sdk from "@a2a-js/sdk";

const [base, token, binding, answer] = process.argv.slice(2);
const isOld = binding === "0.3";
const fetchImpl = (address, options = {}) => {
  const headers = new Headers(options.headers);
  headers.set("Authorization", `Bearer ${token}`);
  return fetch(address, { ...options, headers });
};
const legacyCompat = { enabled: isOld };
const transport = binding === "HTTP+JSON"
  ? new RestTransportFactory({ fetchImpl, legacyCompat })
  : new JsonRpcTransportFactory({ fetchImpl, legacyCompat });
const factory = new ClientFactory({
  transports: [transport],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl, legacyCompat }),
});
const client = await factory.createFromUrl(isOld ? `${base}/a2a/v0.3/` : base);

const say = (line) => console.log(JSON.stringify(line));
const stateOf = (status) => sdk.taskStateToJSON(status.state).replace("TASK_STATE_", "");
const request = (parts, more = {}, configuration = undefined) => sdk.SendMessageRequest.fromJSON({
  message: { messageId: randomUUID(), role: "ROLE_USER", parts, ...more },
  ...(configuration ? { configuration } : {}),
});
const skill = { data: { skill: "consolidate", input: { transcripts: ["one", "two"] } } };

let taskId;
const follow = async (message) => {
  for await (const update of client.sendMessageStream(message)) {
    const { $case: kind, value } = update.payload;
    if (kind === "task") { taskId = value.id; say({ seen: stateOf(value.status), taskId }); }
    if (kind === "artifactUpdate") say({ seen: "artifact" });
    if (kind === "statusUpdate") say({ seen: stateOf(value.status) });
  }
};
// The stream closes where the client has the word; its answer opens the next one.
await follow(request([skill]));
say({ closed: true });
await follow(request([{ text: answer }], { taskId }));
const task = await client.getTask(sdk.GetTaskRequest.fromJSON({ id: taskId }));
say({ read: stateOf(task.status), result: task.artifacts.at(-1).parts[0].content.value });
if (!isOld) say({ listed: (await client.listTasks(sdk.ListTasksRequest.fromJSON({}))).tasks.length });
try {
  await client.cancelTask(sdk.CancelTaskRequest.fromJSON({ id: taskId }));
} catch (refusal) { say({ refused: refusal.constructor.name }); }
