// SPDX-License-Identifier: Apache-2.0

// Package flows turns what people ask about, two parties and a port, into flows.
//
// # Usage
//
//	list, err := flows.Parse(world, "shop/web", "data/db", "tcp/5432")
//
// # Concurrency
//
// Parse does not change the world, and may be called from several goroutines.
//
// # Errors
//
// A *PortError for a port that makes no sense; any other for parties that are not there.
package flows
