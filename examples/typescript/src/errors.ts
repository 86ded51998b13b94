import type { components } from "./api.js";
import type { JsonObject } from "./shapes.js";

type Schemas = components["schemas"];
export const BUSY = new Set([429, 500, 502, 503, 504]);
// Refusals after which a proposal with other arguments makes sense.
const CORRECTABLE = new Set(["invalid_arguments", "invalid_request", "plan_refused", "unsafe_text"]);

/** The tree: `Refused`, `Unreachable`, `NotAnswered`, `BadSignature`. `code` is stable. */
export class AssentError extends Error {
  constructor(readonly code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Assent did not answer in time. Repeat with the same key: nothing is done twice. */
export class Unreachable extends AssentError {
  constructor(message: string, options?: ErrorOptions) {
    super("unreachable", message, options);
  }
}

/** Nobody answered the question. The text says why. */
export class NotAnswered extends AssentError {
  constructor(message: string) {
    super("not_answered", message);
  }
}

/** A webhook that Assent did not send, or that is too old. */
export class BadSignature extends AssentError {
  constructor(message: string) {
    super("bad_signature", message);
  }
}

/** Assent refused a request; nothing was proposed. `hint` helps. */
export class Refused extends AssentError {
  readonly hint: string;
  readonly errors: readonly Schemas["FieldError"][];

  constructor(readonly status: number, problem: Partial<Schemas["Problem"]>) {
    const hint = problem.hint ?? "";
    const detail = problem.detail || problem.title || `HTTP ${status}`;
    super(problem.code ?? "", hint ? `${detail.replace(/\.$/, "")}. ${hint}` : detail);
    this.hint = hint;
    this.errors = problem.errors ?? [];
  }

  /** The same members as those of `Outcome.forModel`, as far as there is a transaction. */
  forModel(): JsonObject {
    return {
      status: "refused",
      message: `It was not proposed, and nothing was carried out. ${this.message}`,
      do_not_retry: !CORRECTABLE.has(this.code) && !BUSY.has(this.status),
      code: this.code,
      errors: this.errors.map(({ field, message }) => ({ field, message })),
    };
  }
}
