// SPDX-License-Identifier: Apache-2.0

// Package replay reads what a calcgraph.Runner has recorded, and plays it to a graph again: the
// same updates in the same order with the same flushes, and so the same batches, byte
// for byte.
//
//	source ─▶ Runner ─▶ Graph ─▶ Out          live
//	            │ RunnerConfig.Record
//	            ▼
//	        recording ─▶ replay.Run ─▶ Graph ─▶ Out
//
// # Usage
//
// To play a recording to a graph of its own and see each batch:
//
//	err := replay.Run(ctx, file, replay.Config{Out: func(_ context.Context, b dataplane.Batch) error {
//		_, err := fmt.Println(b)
//		return err
//	}})
//
// To go through it step by step, for example to find the update that caused a fault, use Read
// and Recording.Steps.
//
// # Format
//
// A recording is text in lines, each a JSON object of at most calcgraph.MaxRecordLine bytes. The
// first is the header, with the configuration of the graph ("remoteEndpointRoutes" and "names"
// where they are true):
//
//	{"recording":"wayleave/calcgraph","version":1,"node":"n1","names":true}
//
// The others have one member, or two where it is "reject":
//
//	{"set":{"kind":"Tier","name":"sec","order":10}}        an object, as policy.Encode writes it
//	{"delete":{"kind":"Tier","name":"sec"}}                a deletion, by key
//	{"reject":{"kind":"Tier","name":"sec"},"error":"..."}  an object that was invalid, and why
//	{"inSync":true}                                        the source is in sync
//	{"flush":true}                                         what came before makes one batch
//
// An invalid object is absent for a graph, and may have no JSON form (a number that is none), so
// its key and the error are all that is kept of it. The lines of a flush are written before the
// graph is given its updates: a recording also has the update that made a graph panic.
// Keys, where their text is not UTF-8 (which no valid object has), come back with replacement
// characters.
//
// # Errors
//
// Whatever is wrong with a recording is a *LineError with the number of the line. Everything before
// that line has been played then. A process that died while writing leaves a last line without its
// end: the LineError wraps ErrTruncated, which a caller may take for the regular end.
//
// # Concurrency
//
// A Recording is for one goroutine. Run uses the caller's.
package replay
