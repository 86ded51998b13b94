// The JavaScript SDK's client: a message for each line that it reads, and what it last shows.
//   node read.mjs <address of the agent> <token> <JSONRPC|HTTP+JSON>
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory,
} from "@a2a-js/sdk/client";
import * as sdk from "@a2a-js/sdk";

const [address, token, binding] = process.argv.slice(2);
const fetchImpl = (to, options = {}) => {
  const headers = new Headers(options.headers);
  headers.set("Authorization", `Bearer ${token}`);
  return fetch(to, { ...options, headers });
};
const Transport = binding === "HTTP+JSON" ? RestTransportFactory : JsonRpcTransportFactory;
const client = await new ClientFactory({
  transports: [new Transport({ fetchImpl })],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
}).createFromUrl(address);
const texts = (parts) =>
  parts.filter((part) => part.content.$case === "text").map((part) => part.content.value).join("");

for await (const line of createInterface({ input: process.stdin })) {
  const shown = [];
  const message = { messageId: randomUUID(), role: "ROLE_USER", parts: [{ text: line }] };
  for await (const update of client.sendMessageStream(sdk.SendMessageRequest.fromJSON({ message }))) {
    const { $case: kind, value } = update.payload;
    if (kind === "artifactUpdate") shown.push(texts(value.artifact.parts));
    else if (value.status?.message) shown.push(texts(value.status.message.parts));
  }
  console.log(JSON.stringify({ over: true, read: shown.at(-1), shown }));
}
