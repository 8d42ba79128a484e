// SPDX-License-Identifier: Apache-2.0

// Package replay sends the recorded updates of a calcgraph.Runner to another graph, in the same
// order and with the same flushes. The other graph returns the same batches, byte for byte.
//
//	source ─▶ Runner ─▶ Graph ─▶ Out          live
//	            │ RunnerConfig.Record
//	            ▼
//	        recording ─▶ replay.Run ─▶ Graph ─▶ Out
//
// # Usage
//
// To play a recording to a new graph and print each batch:
//
//	err := replay.Run(ctx, file, replay.Config{Out: func(_ context.Context, b dataplane.Batch) error {
//		_, err := fmt.Println(b)
//		return err
//	}})
//
// To process it step by step, for example to find the update that caused a fault, use Read and
// Recording.Steps.
//
// # Format
//
// A recording is lines of text. Each line is a JSON object of at most calcgraph.MaxRecordLine
// bytes. The first is the header. It has the fields of the graph's calcgraph.Config: "node" is
// Node, "names" is Names, "unreachableRoutes" is UnreachableRoutes. A field that is false is left
// out. This is an example of a header:
//
//	{"recording":"wayleave/calcgraph","version":1,"node":"n1","names":true}
//
// Each other line has one member, or two for "reject":
//
//	{"set":{"kind":"Tier","name":"sec","order":10}}        an object, as policy.Encode encodes it
//	{"delete":{"kind":"Tier","name":"sec"}}                a deletion, by key
//	{"reject":{"kind":"Tier","name":"sec"},"error":"..."}  an object that was invalid, and why
//	{"inSync":true}                                        the source is in sync
//	{"flush":true}                                         the end of a batch
//
// A graph treats an invalid object as if it did not exist, so the recording has only the key of the
// object and the error. The object itself may be impossible to write: JSON has no form for NaN, for
// example.
//
// The Runner writes the lines of a flush before it gives the updates of the flush to the graph.
// Therefore a recording also has the update that made a graph panic. If a key is not valid UTF-8,
// the recording has replacement characters in it. No valid object has such a key.
//
// # Errors
//
// For an error in a recording, Run and Steps return a *LineError with the number of the line. All
// lines before it have been played. If the recording process died while writing, the last line is
// not complete. Then the LineError wraps ErrTruncated, which a caller may treat as a regular end.
//
// # Concurrency
//
// A Recording is for one goroutine at a time. Run calls its callbacks in the caller's goroutine.
package replay
