/** What is read: tools, proposals, outcomes. */
import type { components } from "./api.js";

export type Row = components["schemas"]["TransactionOut"];
export type JsonValue =
  | string | number | boolean | null | readonly JsonValue[] | { readonly [name: string]: JsonValue };
export type JsonObject = { readonly [name: string]: JsonValue };
export type Arguments = { readonly [name: string]: unknown };

/** One entry of the catalogue. `schema`: JSON Schema of the arguments. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly schema: JsonObject;
  /** "transactional" waits for sign-off, "readonly" answers at once. */
  readonly kind: "transactional" | "readonly";
}

/** A proposal that waits for sign-off. `url`: where people decide. */
export interface Intent {
  readonly transactionId: string;
  readonly summary: string;
  readonly warnings: readonly string[];
  readonly expiresAt: string;
  readonly url: string;
}

/** One value that is not as it was proposed. `path`: such as `arguments.amount`. */
export interface Change {
  readonly path: string;
  readonly from: JsonValue;
  readonly to: JsonValue;
}

interface Known {
  readonly transactionId: string;
  /** To be given to the model as it is. */
  readonly sentence: string;
  readonly doNotRetry: boolean;
  readonly url: string;
  readonly reason: string;
  readonly decidedBy: readonly string[];
  /** What people changed. */
  readonly changed: readonly Change[];
  /** Waits for an answer, unless it is empty. */
  readonly question: string;
  /** Why it was sent back, unless it is empty. */
  readonly changeRequest: string;
  /** The outcome for the model of any framework: plain JSON. */
  forModel(): JsonObject;
}

/** `pending` and `in_doubt` are not final: neither is a failure. */
export type Outcome =
  | (Known & { readonly kind: "pending" | "in_doubt"; readonly isFinal: false })
  | (Known & {
      readonly kind: "succeeded";
      readonly isFinal: true;
      readonly receipt: string;
      readonly receiptUrl: string;
      readonly result: JsonObject | null;
    })
  | (Known & {
      readonly kind: "handed_over" | "refused" | "expired" | "withdrawn" | "failed";
      readonly isFinal: true;
    });

/** The outcome that a transaction, as it was read, has. */
export function outcomeOf(row: Row): Outcome {
  const { kind, is_final, sentence, do_not_retry } = row.outcome;
  const { receipt, receipt_url, ending_reason: reason, links, transaction_id } = row;
  const result = row.result as JsonObject | null;
  const changed = row.changed as readonly (Change & JsonObject)[];
  const decidedBy = row.decisions.map((one) => one.principal_name || one.principal);
  const question = row.question?.text ?? "";
  const changeRequest = row.change_request?.text ?? "";
  const succeeded = kind === "succeeded";
  return {
    transactionId: transaction_id,
    kind,
    isFinal: is_final,
    sentence,
    doNotRetry: do_not_retry,
    url: links.desk,
    reason,
    decidedBy,
    changed,
    question,
    changeRequest,
    ...(succeeded && { receipt, receiptUrl: receipt_url, result }),
    forModel: () => ({
      status: kind,
      message: sentence,
      do_not_retry,
      decided_by: decidedBy,
      transaction_id,
      url: links.desk,
      changed,
      ...(question && { question }),
      ...(changeRequest && { change_request: changeRequest, replaces: transaction_id }),
      ...(succeeded ? { receipt, receipt_url, result } : { reason }),
    }),
  } as Outcome;
}
