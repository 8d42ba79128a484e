// SPDX-License-Identifier: Apache-2.0

// Package frame reads and writes messages on a connection. Before each message is its length in
// bytes, as a big-endian number of 4 bytes.
//
// # Usage
//
//	c := frame.New(conn, limit, writeTimeout)
//	err := c.Write(message)
//	err = c.Read(message)
//
// # Concurrency
//
// One goroutine at a time may call Read. Any number of goroutines may call Write.
//
// # Errors
//
// Read returns io.EOF if the connection ends between two messages. After an error of Read or Write,
// the connection must be closed.
package frame
