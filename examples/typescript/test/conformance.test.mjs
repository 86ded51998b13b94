// The client does what ../../conformance/client.json says, as the one in Python.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { after, before, mock, test } from "node:test";
import { Assent, AssentError, BadSignature, keyOf, verifyWebhook } from "@assent/client";
import { clock } from "../dist/clock.js";

const folder = new URL("../../conformance/", import.meta.url);
const said = JSON.parse(await readFile(new URL("client.json", folder), "utf8"));
const TOKEN = "a-token";

let player, url;
before(async () => {
  const script = new URL("player.py", folder).pathname;
  player = spawn("python3", [script], { stdio: ["ignore", "pipe", "inherit"] });
  url = String((await once(player.stdout, "data"))[0]).trim();
});
after(() => player.kill());

// Pauses take no time, and the clock goes on by them alone.
let pauses = [];
clock.now = () => pauses.reduce((sum, seconds) => sum + seconds * 1000, 0);
clock.pause = async (ms) => void pauses.push(ms / 1000);

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const renamed = (members) =>
  Object.fromEntries(Object.entries(members).map(([name, value]) => [camel(name), value]));

const METHODS = {
  tools: (desk) => desk.tools(),
  call: (desk, { tool, arguments: args }) => desk.call(tool, args),
  prepare: (desk, { tool, arguments: args, ...more }) => desk.prepare(tool, args, renamed(more)),
  get: (desk, { transaction_id: id }) => desk.get(id),
  wait: (desk, { transaction_id: id, timeout: s }) =>
    desk.wait(id, s === undefined ? {} : { timeoutMs: s * 1000 }),
  answer: (desk, { transaction_id: id, text }) => desk.answer(id, text),
  cancel: (desk, { transaction_id: id, reason }) => desk.cancel(id, reason),
  ask: (desk, { text, options, ...more }) => desk.ask(text, options, renamed(more)),
};

// Of what was returned or thrown, the members that the case has.
function asSaid(found, expected) {
  if (Array.isArray(expected)) return found.map((one, index) => asSaid(one, expected[index]));
  if (expected === null || typeof expected !== "object") return found;
  const members = { ...found, class: found.name, message: found.message, forModel: found.forModel?.() };
  return Object.fromEntries(Object.keys(expected).map((name) => [name, members[camel(name)]]));
}

for (const { name, call, on_question, result, error, pauses: expected = [] } of said.cases)
  test(name, async () => {
    pauses = [];
    await fetch(`${url}/play`, { method: "POST", body: JSON.stringify(name) });
    const desk = new Assent({ url, token: TOKEN, onQuestion: on_question && (() => on_question) });

    const [method, parameters] = call;
    const [found, thrown] = await METHODS[method](desk, parameters).then(
      (value) => [value],
      (failure) => [undefined, failure],
    );

    assert.deepEqual(await (await fetch(`${url}/faults`)).json(), []);
    if (error && thrown instanceof AssentError) assert.deepEqual(asSaid(thrown, error), error);
    else if (error || thrown) throw thrown ?? new Error("It threw nothing.");
    else assert.deepEqual(asSaid(found, result), result);
    assert.deepEqual(pauses, expected);
  });

for (const { parts, key } of said.keys)
  test(`the key of ${JSON.stringify(parts)}`, async () => assert.equal(await keyOf(...parts), key));

const { now, tolerance_s: toleranceS, cases } = said.webhooks;
for (const { name, headers, body, secret, content, error } of cases)
  test(`a webhook: ${name}`, async (t) => {
    t.mock.timers.enable({ apis: ["Date"], now: now * 1000 });
    for (const given of [body, new TextEncoder().encode(body)]) {
      const read = verifyWebhook(headers, given, secret, toleranceS);
      if (error) await assert.rejects(read, error === "BadSignature" ? BadSignature : TypeError);
      else assert.deepEqual(await read, content);
    }
  });

test("a wait ends at once when its signal is aborted", async () => {
  const stop = new AbortController();
  const held = (_, { signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const desk = new Assent({ url, token: TOKEN, fetch: held });

  const waiting = desk.wait("some-id", { signal: stop.signal });
  stop.abort(new Error("no longer"));

  await assert.rejects(waiting, /no longer/);
});

test("what no header can carry, and an address that is none, is said at once", async () => {
  const never = mock.fn();
  const desk = new Assent({ url, token: TOKEN, fetch: never });

  await assert.rejects(desk.prepare("pay", {}, { key: "line\nbreak" }), TypeError);
  for (const wrong of ["localhost:8000", "ftp://assent.example", "assent.example"])
    assert.throws(() => new Assent({ url: wrong, token: TOKEN }), /is no address/);
  assert.equal(never.mock.callCount(), 0);
});
