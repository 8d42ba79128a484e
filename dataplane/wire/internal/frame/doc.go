// SPDX-License-Identifier: Apache-2.0

// Package frame reads and writes protobuf messages on a connection. Each message is preceded by its
// length in bytes, which is a big-endian number of 4 bytes.
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
// call Close.
package frame
