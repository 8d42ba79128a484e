// SPDX-License-Identifier: Apache-2.0

// Package matrix computes which pods and addresses policy allows to connect to each other, and
// formats the result as a table.
//
// # Usage
//
//	m, err := matrix.Compute(ctx, matrix.Config{
//		Evaluator: verdict.New(world), Partition: probe.NewPartition(world), Pods: index.Endpoints(), Port: port,
//	})
//	fmt.Print(matrix.Legend + m.Text(matrix.Style{Width: 120}))
//
// Pods that policy does not distinguish share a row and a column, and are evaluated only once.
//
// # Concurrency
//
// Compute uses all processors, and returns when all flows are evaluated. Afterwards a Matrix does
// not change, and may be read by several goroutines.
//
// # Errors
//
// Compute returns the error of its context. There are no other errors.
package matrix
