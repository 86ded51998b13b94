// The MCP client of the JavaScript SDK, for tests: says what it sees, one JSON line each.
//   node client.mjs <address> <another address> <token>
// It calls `pay` with its default limit of 60 s, and then `assent_wait` at the other address.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [address, other, token] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const connected = async (url) => {
  const client = new Client({ name: "peer", version: "1" });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
};

const first = await connected(address);
say({ seen: "tools", names: (await first.listTools()).tools.map((tool) => tool.name) });
const payment = { name: "pay", arguments: { reference: "R-js", amount: "12.00" } };
let body = (await first.callTool(payment)).structuredContent;
say({ seen: body.status, id: body.transaction_id });
await first.close();
const second = await connected(other);
while (body.status === "pending") {
  const wait = { name: "assent_wait", arguments: { transaction_id: body.transaction_id } };
  body = (await second.callTool(wait)).structuredContent;
}
say({ seen: body.status, receipt: body.receipt });
await second.close();
