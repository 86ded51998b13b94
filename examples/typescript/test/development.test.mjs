// An agent is tried without a server, and nobody can take that for a desk.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { DevelopmentDesk } from "@assent/client/development";

const loud = mock.method(console, "warn", () => {});
const ARGUMENTS = { payment_id: "pay_1042" };
const TOOLS = {
  refund: { run: ({ payment_id }) => ({ refunded: payment_id }), description: "Give money back." },
  fail: { run: () => { throw new Error("closed"); } },
  look: { run: () => null, kind: "readonly" },
};

async function told(decide, tool = "refund", onQuestion) {
  const assent = new DevelopmentDesk(TOOLS, decide).client(onQuestion && { onQuestion });
  const { transactionId } = await assent.prepare(tool, ARGUMENTS);
  return (await assent.wait(transactionId, { timeoutMs: 5000 })).forModel();
}

test("people approve, refuse, or do not come", async () => {
  const approved = await told((desk, { transactionId }) => desk.approve(transactionId));
  const refused = await told((desk, { transactionId }) => desk.refuse(transactionId, "Paid before."));
  const late = await told((desk, { transactionId }) => desk.expire(transactionId));
  const failed = await told((desk, { transactionId }) => desk.approve(transactionId), "fail");

  assert.deepEqual([approved, refused, late, failed].map((one) => one.status),
    ["succeeded", "refused", "expired", "failed"]);
  assert.deepEqual(approved.result, { refunded: "pay_1042" });
  assert.deepEqual([refused.reason, failed.reason], ["Paid before.", "Error: closed"]);
});

test("somebody asks, is answered, and decides then", async () => {
  const decide = (desk, { transactionId, answers }) =>
    answers.length ? desk.refuse(transactionId, answers[0]) : desk.ask(transactionId, "Which lamp?");

  assert.equal((await told(decide)).question, "Which lamp?");
  assert.equal((await told(decide, "refund", ({ question }) => `Not ${question}`)).reason, "Not Which lamp?");
});

test("the same key is the same proposal, and it can be taken back once", async () => {
  const assent = new DevelopmentDesk(TOOLS).client();
  const [one, two] = [await assent.prepare("refund", ARGUMENTS, { key: "k" }),
    await assent.prepare("refund", ARGUMENTS, { key: "k" })];

  assert.deepEqual(one, two);
  assert.equal((await assent.wait(one.transactionId, { timeoutMs: 20 })).kind, "pending");
  assert.equal((await assent.cancel(one.transactionId, "No.")).reason, "No.");
  await assert.rejects(assent.cancel(one.transactionId), { code: "not_possible" });
});

test("what only reads answers at once, and what is not there is refused", async () => {
  const assent = new DevelopmentDesk(TOOLS).client();

  assert.deepEqual((await assent.tools()).map(({ name, kind }) => [name, kind]),
    [["refund", "transactional"], ["fail", "transactional"], ["look", "readonly"]]);
  assert.equal(await assent.call("look", {}), null);
  await assert.rejects(assent.prepare("invented", {}), { code: "not_found" });
  await assert.rejects(assent.ask("Why?"), { code: "not_found" });
});

test("it says loudly, and with each outcome, that it is no desk", async () => {
  loud.mock.resetCalls();
  const said = await told((desk, { transactionId }) => desk.approve(transactionId));

  assert.match(loud.mock.calls[0].arguments[0], /no desk.*Nobody signs off/);
  assert.match(said.message, /no desk/);
  assert.match(said.receipt, /^development-/);
});
