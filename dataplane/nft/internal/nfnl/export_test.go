// SPDX-License-Identifier: Apache-2.0

package nfnl

// Finish returns the bytes that Commit would send.
func Finish(b *Batch) ([]byte, error) { return b.finish() }
