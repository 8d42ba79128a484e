// SPDX-License-Identifier: Apache-2.0

// Package matrix computes who may talk to whom, and draws it.
//
// # Usage
//
//	m, err := matrix.Compute(ctx, matrix.Config{
//		Evaluator: verdict.New(world), Partition: probe.NewPartition(world), Pods: index.Endpoints(), Port: port,
//	})
//	fmt.Print(matrix.Legend + m.Text(matrix.Style{Width: 120}))
//
// Pods that policy cannot tell apart share a row and a column, and are judged once.
//
// # Concurrency
//
// Compute works on all processors and returns when all is judged. A Matrix does not change
// afterwards and may be read by several goroutines.
//
// # Errors
//
// Compute returns the error of its context, and nothing else can go wrong.
package matrix
