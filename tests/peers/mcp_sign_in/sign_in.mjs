// The MCP client of the TypeScript SDK that signs in, for tests: says what it sees, one JSON line each.
//   node sign_in.mjs <address> <registered|dynamic> <client id>
// It says where its person has to go, and is told on standard input where they were sent back to.
import { createInterface } from "node:readline";
import {
  Client,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";

const [address, kind, clientId] = process.argv.slice(2);
const say = (line) => console.log(JSON.stringify(line));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const redirectUrl = "http://localhost:7777/callback";
const kept = kind === "registered" ? { client: { client_id: clientId } } : {};
const authProvider = {
  redirectUrl,
  clientMetadata: {
    client_name: "A client of the SDK",
    redirect_uris: [redirectUrl],
    token_endpoint_auth_method: "none",
  },
  state: () => "a-state",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
  redirectToAuthorization: (url) => say({ seen: "authorize", url: String(url) }),
};
const connected = async () => {
  const client = new Client({ name: "peer", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(address), { authProvider });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    const { value: returned } = await lines.next();
    await transport.finishAuth(new URL(returned).searchParams);
    return connected();
  }
  return client;
};
const client = await connected();
const payment = { reference: "R-js", amount: "12.00" };
const called = { name: "pay", arguments: payment, _meta: { "assent/hold-s": 0 } };
const body = (await client.callTool(called)).structuredContent;
say({ seen: body.status, id: body.transaction_id });
await client.close();
process.exit(0);
