// Package fakevendor is an asynchronous image and video vendor with books of its
// own: a real HTTP server that accepts work, bills it, and misbehaves when told.
// Whoever calls it can be killed at any point, and the vendor's bill still says
// what it would have cost.
//
// It runs inside a test ([Start], [New]) or as a process of its own ([Main],
// seen through [Remote]), whose books then survive both its callers and itself.
//
// # Protocol
//
// JSON over HTTP with `Authorization: Bearer KEY`, except for files, whose
// addresses cannot be guessed. Times are RFC 3339, money and units integers. An
// error is {"error":{"code","message"}}.
//
//	POST /v1/generations                 Idempotency-Key: K
//	  {"input":{"prompt":"a fox","n":2,…},"webhook_url":"https://…"}
//	  201 generation. n is 1 to 100, 1 when left out; webhook_url may be.
//	  400 malformed, 401 wrong key, 413 over 1 MiB
//	GET  /v1/generations/{id}            200 generation, 404
//	GET  /v1/generations?idempotency_key=K
//	  200 {"data":[generation]} or {"data":[]}; 404 not_supported when switched off
//	POST /v1/generations/{id}/cancel     200 generation, 404, 409 already_ended
//	GET  /v1/files/{id}/{n}.png          200 image/png, 404
//
//	generation
//	  {"id":"gen_…","status":"queued|processing|succeeded|failed|cancelled",
//	   "progress":40,"poll_after_ms":100,
//	   "outputs":[{"url","content_type","bytes","sha256"}],
//	   "usage":{"units":2},"cost":80,
//	   "error":{"code","message","transient":false},
//	   "created_at":"…","ended_at":"…"}
//	  poll_after_ms, error and ended_at are null where there is none. Open
//	  generations also carry Retry-After, poll_after_ms in seconds rounded up.
//
// # Idempotency keys
//
// A key answers for ever, like those of payment APIs:
//
//   - same key, same content (order of JSON keys and white space do not count):
//     the first answer again, status and body, with Idempotency-Replayed: true.
//     A failure that came after execution had begun is replayed too, so only a
//     lookup tells whether such a key has a generation;
//   - same key, other content: 422 idempotency_key_reused;
//   - same key while the first request is being served: 409 in_progress. A
//     lookup finds nothing until the work is accepted, which may happen although
//     the client that asked has long gone;
//   - a request refused before execution (400, 401, 429, a fault at "before")
//     leaves its key unused.
//
// # Bill
//
// Every accepted generation is one row of the bill: the units asked for while it
// is open, those delivered once it has ended. A failure bills nothing unless its
// [Outcome] says otherwise, a cancel what was ready by then. Keys are read as
// JOB:N, so that the bill can be asked for the generations of a job.
//
// # Callbacks
//
// To webhook_url, signed as Standard Webhooks: webhook-id, webhook-timestamp
// (seconds), webhook-signature "v1,BASE64" being HMAC-SHA256 over
// ID.TIMESTAMP.BODY, one signature for each secret while they are rotated,
// separated by spaces. The body is
//
//	{"type":"generation.processing","timestamp":"…","data":generation}
//
// One message at a time for each generation, again and again until it is
// answered with 2xx or tries run out. [Work] can list other callbacks than the
// two that are due: doubled, in the wrong order, untrue, before the answer to
// the submit, about a generation that does not exist, forged.
//
// # Operating it
//
// With the same bearer key. Unknown fields are refused with 400.
//
//	GET    /books                              Bill
//	GET    /admin/faults                       faults and how many calls each has seen
//	POST   /admin/faults      [Fault, …]       appends to the script
//	DELETE /admin/faults                       empties it
//	POST   /admin/progress    {"id","percent","delivered"}
//	POST   /admin/finish      {"id" or "key_prefix","outcome":Outcome}
//	POST   /admin/callbacks   {"id","callback":Callback}   200 {"status":204}
//	POST   /admin/gates/{name}                 opens a gate
//	PUT    /admin/webhook-secrets  ["whsec_…"]
//	GET    /admin/wait?kind=&key_prefix=&n=&timeout=10s   200 {"count":2,"met":true}
//
// Faults are data, see [Fault]; the script is not part of the books, so a vendor
// that starts again begins its script anew.
package fakevendor
