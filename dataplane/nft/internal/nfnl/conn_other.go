// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nfnl

// Config says how to reach nf_tables. It is a plain value.
type Config struct {
	// NetNS is a file descriptor of the network namespace.
	NetNS int
}

// Conn cannot be had on this operating system. It is not safe for concurrent use.
type Conn struct{}

// Dial returns ErrUnsupported.
func Dial(Config) (*Conn, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Conn) Close() error { return nil }

// Commit returns ErrUnsupported.
func (*Conn) Commit(*Batch) error { return ErrUnsupported }

// Generation returns ErrUnsupported.
func (*Conn) Generation() (uint32, error) { return 0, ErrUnsupported }
